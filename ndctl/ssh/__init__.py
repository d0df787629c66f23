"""Reaching nodes by SSH: settings, host keys, jump hosts, and the fan-out `ndctl.ssh.engine.Engine`.

paramiko is imported when the first node is asked, not when this room is.
"""
