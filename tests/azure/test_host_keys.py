"""Host keys read out of a Run Command's answer or the serial console."""

from ndctl.azure.host_keys import _last_console_block, public_keys

ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIFg7Yr0GdUJ4mIBCg6ZOuT9i8QJ0B9S8y0Q1hY9pKqzV"
RSA = "AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7vbqajDhA0xjJ5eWKGc1S"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def test_run_command_answer() -> None:
    text = f"Enable succeeded: \n[stdout]\nssh-rsa {RSA} root@node\nssh-ed25519 {ED25519} root@node\n\n[stderr]\n"
    assert public_keys(text) == (("ssh-ed25519", ED25519), ("ssh-rsa", RSA))


def test_key_of_another_type_than_its_line_says_is_left_out() -> None:
    assert public_keys(f"ssh-ed25519 {RSA} root@node") == ()


def test_no_key_in_other_text() -> None:
    assert public_keys("cat: /etc/ssh/ssh_host_*_key.pub: No such file or directory") == ()
    assert public_keys("ssh-ed25519 AAAA") == ()


def test_console_gives_the_keys_of_the_newest_boot() -> None:
    def boot(key: str) -> str:
        return (
            "[   12.1] cloud-init[812]: ok\n-----BEGIN SSH HOST KEY KEYS-----\n"
            f"ssh-ed25519 {key} root@node\n-----END SSH HOST KEY KEYS-----\n"
        )

    console = boot(OTHER) + "reimaged\n" + boot(ED25519)
    assert public_keys(_last_console_block(console)) == (("ssh-ed25519", ED25519),)
    assert _last_console_block("no markers here") == ""
