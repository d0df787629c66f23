"""What the tools on a node print, from the model. Never shares code with `ndctl.parse`; held to real captures."""
