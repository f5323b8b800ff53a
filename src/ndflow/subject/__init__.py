"""One scan: read it, estimate its density, bring it to a target."""
