"""Active checks of a rack: one file each, with ACTIVE."""
