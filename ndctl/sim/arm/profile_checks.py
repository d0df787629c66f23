"""What Azure's compute provider refuses in a virtual machine's profile."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from ndctl.sim.arm.catalogue import Image, Size, find_image
from ndctl.sim.arm.errors import ArmError, bad_request, invalid_parameter

_SCALE_SET_KEYS = {"location", "tags", "sku", "plan", "properties", "identity", "zones", "placement", "name", "id",
                   "type", "etag", "extendedLocation", "apiVersion"}  # fmt: skip
_PROPERTY_KEYS = {
    "upgradePolicy", "scheduledEventsPolicy", "automaticRepairsPolicy", "virtualMachineProfile", "provisioningState",
    "overprovision", "doNotRunExtensionsOnOverprovisionedVMs", "uniqueId", "singlePlacementGroup", "zoneBalance",
    "platformFaultDomainCount", "proximityPlacementGroup", "hostGroup", "additionalCapabilities", "scaleInPolicy",
    "orchestrationMode", "spotRestorePolicy", "priorityMixPolicy", "timeCreated", "constrainedMaximumCapacity",
    "resiliencyPolicy", "zonalPlatformFaultDomainAlignMode", "skuProfile", "highSpeedInterconnectPlacement",
    "lifecycleHooksProfile", "externalHealthPolicy",
}  # fmt: skip
_PROFILE_KEYS = {
    "osProfile", "storageProfile", "networkProfile", "securityProfile", "diagnosticsProfile", "extensionProfile",
    "licenseType", "priority", "evictionPolicy", "billingProfile", "scheduledEventsProfile", "userData",
    "capacityReservation", "applicationProfile", "hardwareProfile", "serviceArtifactReference",
    "securityPostureReference", "timeCreated", "interconnectBlockProfile",
}  # fmt: skip
_KEY_TYPES = ("ssh-rsa", "ssh-ed25519")


def check_scale_set_keys(body: Mapping[str, Any]) -> None:
    properties = body.get("properties") or {}
    _known(body, _SCALE_SET_KEYS, "VirtualMachineScaleSet")
    _known(properties, _PROPERTY_KEYS, "VirtualMachineScaleSetProperties")
    _known(properties.get("virtualMachineProfile") or {}, _PROFILE_KEYS, "VirtualMachineScaleSetVMProfile")


def check_os_profile(profile: Mapping[str, Any], *, prefix: bool) -> None:
    name_key = "computerNamePrefix" if prefix else "computerName"
    for key in (name_key, "adminUsername"):
        if not profile.get(key):
            raise invalid_parameter(f"osProfile.{key}", f"Required parameter '{key}' is missing (null).")
    if len(str(profile[name_key])) > (58 if prefix else 64):
        raise invalid_parameter(f"osProfile.{name_key}", f"Linux {name_key} cannot exceed its length limit.")
    if str(profile["adminUsername"]).lower() in ("root", "admin", "administrator"):
        raise invalid_parameter("osProfile.adminUsername", "The Admin Username specified is not allowed.")
    custom = profile.get("customData")
    if custom is not None:
        try:
            raw = base64.b64decode(str(custom), validate=True)
        except (binascii.Error, ValueError):
            raise invalid_parameter(
                "osProfile.customData",
                "Custom data in OSProfile must be in Base64 encoding and with a maximum length of 87380 characters.",
            ) from None
        if len(str(custom)) > 87_380 or len(raw) > 65_535:
            raise invalid_parameter("osProfile.customData", "Custom data is longer than 87380 characters.")
    linux = profile.get("linuxConfiguration") or {}
    keys = (linux.get("ssh") or {}).get("publicKeys") or []
    if linux.get("disablePasswordAuthentication") and not keys:
        raise invalid_parameter(
            "linuxConfiguration.ssh.publicKeys",
            "Authentication using SSH is enabled, but no public keys are given. Please give one or more.",
        )
    if not linux.get("disablePasswordAuthentication") and not profile.get("adminPassword"):
        raise invalid_parameter("adminPassword", "Required parameter 'adminPassword' is missing (null).")
    for key in keys:
        data = str(key.get("keyData", "")).split()
        if len(data) < 2 or data[0] not in _KEY_TYPES or not _base64(data[1]):
            raise invalid_parameter(
                "linuxConfiguration.ssh.publicKeys.keyData",
                "The value of parameter linuxConfiguration.ssh.publicKeys.keyData is invalid.",
            )
        expected = f"/home/{profile['adminUsername']}/.ssh/authorized_keys"
        if key.get("path") != expected:
            raise invalid_parameter(
                "linuxConfiguration.ssh.publicKeys.path",
                f"Destination path for SSH public keys is currently limited to its default value {expected}.",
            )


def check_image(profile: Mapping[str, Any], size: Size, location: str) -> Image | None:
    """The image of a storage profile; None for one of the user's own."""
    reference = profile.get("imageReference") or {}
    if reference.get("id"):
        return None
    publisher, offer, sku, version = (str(reference.get(k, "")) for k in ("publisher", "offer", "sku", "version"))
    if not all((publisher, offer, sku, version)):
        raise invalid_parameter("imageReference", "Required parameter 'imageReference' is missing or incomplete.")
    image = find_image(publisher, offer, sku)
    if image is None or (version.lower() != "latest" and version not in image.versions):
        raise ArmError(
            404,
            "PlatformImageNotFound",
            f"The platform image '{publisher}:{offer}:{sku}:{version}' is not available. Verify that all fields in the "
            "storage profile are correct. For more details about storage profile information, please refer to "
            "https://aka.ms/storageprofile",
            target="imageReference",
        )
    if image.architecture != size.architecture:
        raise bad_request(
            f"Cannot create a VM of size '{size.name}' because this VM size only supports a CPU Architecture of "
            f"'{size.architecture}', but an image or disk with CPU Architecture '{image.architecture}' was given. "
            "Please check that the CPU Architecture of the image or disk is compatible with that of the VM size."
        )
    return image


def check_disks(profile: Mapping[str, Any], size: Size) -> None:
    controller = profile.get("diskControllerType")
    if size.nvme_only and controller not in (None, "NVMe"):
        raise invalid_parameter(
            "diskControllerType", f"The VM size '{size.name}' cannot boot with DiskControllerType '{controller}'."
        )
    ephemeral = ((profile.get("osDisk") or {}).get("diffDiskSettings") or {}).get("option") == "Local"
    if ephemeral and not size.ephemeral:
        raise ArmError(
            409, "OperationNotAllowed", f"OS disk of Ephemeral VM with size {size.name} is not supported by its cache."
        )


def _known(body: Mapping[str, Any], keys: Iterable[str], what: str) -> None:
    allowed = {key.lower() for key in keys}
    for key in body:
        if key.lower() not in allowed:
            raise bad_request(f"Could not find member '{key}' on object of type '{what}'. Path '{key}'.")


def _base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
