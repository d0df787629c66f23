"""A policy's refusal names the policy, and shows no JSON."""

from pathlib import Path

import pytest

from ndctl.azure.faults import fault_from_body
from ndctl.azure.policy_words import in_words, policies_in

CAPTURE = Path(__file__).parents[1] / "captures" / "azure" / "24-requestdisallowedbypolicy-json-in-text.txt"
TWO = (
    'Resource \'a\' was disallowed by policy. Policy identifiers: \'[{"policyAssignment":{"name":"no-ip","id":"/x"},'
    '"policyDefinition":{"name":"d","id":"/d"}},{"policyAssignment":{"id":"/y","name":"tags"}}]\'.'
)


def test_names_instead_of_json() -> None:
    assert policies_in(TWO) == ("no-ip", "tags")
    assert in_words(TWO) == "Resource 'a' was disallowed by policy. Policies: no-ip, tags."


def test_the_fault_says_whose_exemption_to_ask_for() -> None:
    fault = fault_from_body({"code": "RequestDisallowedByPolicy", "message": TWO, "target": "a"})
    assert (
        fault.next_step == "Change the inventory to meet policies 'no-ip', 'tags', or ask the owner for an exemption."
    )
    assert "{" not in fault.message + fault.innermost_message and not fault.retryable


def test_a_real_one() -> None:
    text = CAPTURE.read_text()
    assert policies_in(text) == ("Hackathon15951-1259751-PolicyDefinition",)
    assert "{" not in in_words(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("Policy identifiers: '[]'.", ()),
        ("Policy identifiers: see portal", ()),
        ('Policy identifiers: \'[{"policyAssignment":{"name":"cut-off","id":"/su', ("cut-off",)),
        ('Policy identifiers: \'[{\\"policyAssignment\\":{\\"name\\":\\"escaped\\"}}]\'.', ("escaped",)),
        ('Policy identifiers: \'[{"policyDefinition":{"name":"only-a-definition"}}]\'.', ("only-a-definition",)),
        ("Allocation failed.", ()),
    ],
)
def test_other_texts(text: str, names: tuple[str, ...]) -> None:
    assert policies_in(text) == names
    if not names:
        assert in_words(text) == text
