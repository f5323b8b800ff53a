"""Files of any kind except images: verified when read, written completely or not at all."""
