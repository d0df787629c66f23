"""The nodes as one reaches them: over SSH, with stand-in tools that answer from the model of the racks."""
