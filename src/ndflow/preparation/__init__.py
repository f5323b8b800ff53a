"""From a raw scan to what the method needs: brain mask, bias field, template and tissue maps."""
