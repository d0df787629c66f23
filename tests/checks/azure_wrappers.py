"""How tools print one error of Azure: each function wraps a code and a message as that tool does."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable

ID = "/subscriptions/a0000001-0000-4000-8000-000000000001/resourceGroups/rg-swc-a"
RULE = "-" * 80


def body(code: str, message: str, depth: int = 0, target: str = "") -> dict[str, object]:
    error: dict[str, object] = {"code": code, "message": message}
    if target:
        error["target"] = target
    for _ in range(depth):
        error = {"code": "DeploymentFailed", "message": "At least one resource deployment operation failed.",
                 "details": [error]}  # fmt: skip
    return {"error": error}


def plain_json(code: str, message: str) -> str:
    return json.dumps(body(code, message), indent=2)


def nested_json(code: str, message: str) -> str:
    return json.dumps({"status": "Failed", **body(code, message, 2)})


def json_in_message(code: str, message: str) -> str:
    inner = json.dumps(body(code, message), indent=2).replace("\n", "\r\n")
    details = [{"code": "Conflict", "message": inner}]
    return "ERROR: " + json.dumps({"error": {"code": "DeploymentFailed", "message": "x", "details": details}})


def json_three_deep(code: str, message: str) -> str:
    text = json.dumps(body(code, message))
    for _ in range(3):
        text = json.dumps({"status": "Failed", "statusMessage": text})
    return text


def az(code: str, message: str) -> str:
    return f"({code}) {message}\nCode: {code}\nMessage: {message}"


def az_deployment(code: str, message: str) -> str:
    return (
        "ERROR: (InvalidTemplateDeployment) The template deployment 'rack64' is not valid according to the validation "
        "procedure. The tracking id is 'a0000001-0000-4000-8000-000000000002'. See inner errors for details.\n"
        "Code: InvalidTemplateDeployment\nMessage: The template deployment 'rack64' is not valid according to the "
        "validation procedure. The tracking id is 'a0000001-0000-4000-8000-000000000002'. See inner errors for details."
        f"\nException Details:\t({code}) {message}\n\tCode: {code}\n\tMessage: {message}"
    )


def az_old(code: str, message: str) -> str:
    return (
        "Azure Error: InvalidTemplateDeployment\nMessage: The template deployment is not valid. See inner errors.\n"
        f"Exception Details:\n\tError Code: {code}\n\tMessage: {message}\n\tTarget: None"
    )


def python_traceback(code: str, message: str) -> str:
    return (
        'Traceback (most recent call last):\n  File "/opt/app/deploy.py", line 71, in <module>\n    poller.result()\n'
        '  File "/opt/venv/lib/python3.12/site-packages/azure/core/polling/_poller.py", line 242, in result\n'
        "    self.wait(timeout)\n"
        f"azure.core.exceptions.HttpResponseError: ({code}) {message}\nCode: {code}\nMessage: {message}"
    )


def python_repr(code: str, message: str) -> str:
    return f"deployment failed: {body(code, message)!r}"


def powershell(code: str, message: str) -> str:
    said = (
        "New-AzResourceGroupDeployment: 18:30:57 - Error: Code=InvalidTemplateDeployment; Message=The template "
        "deployment 'rack64' is not valid according to the validation procedure. See inner errors for details.\n"
        "At C:\\ops\\deploy.ps1:73 char:33\n+ ... $r = New-AzResourceGroupDeployment -ResourceGroupName $In ...\n\n"
        f"New-AzResourceGroupDeployment: 18:30:57 - Error: Code={code}; Message={message}"
    )
    return "\n".join(line[at : at + 118] for line in said.split("\n") for at in range(0, max(len(line), 1), 118))


def powershell_status_message(code: str, message: str) -> str:
    return (
        "New-AzResourceGroupDeployment: 5:45:11 PM - The deployment 'rack64' failed with error(s). Showing 1 out of 1 "
        f"error(s).\nStatus Message: {message} (Code:{code})\nCorrelationId: a0000001-0000-4000-8000-000000000002"
    )


def powershell_exception(code: str, message: str) -> str:
    return (
        f"New-AzVmss : {message}\nErrorCode: {code}\nErrorMessage: {message}\nErrorTarget: \nStatusCode: 409\n"
        "ReasonPhrase: Conflict\nOperationID : a0000001-0000-4000-8000-000000000002\nAt line:1 char:1"
    )


def dotnet(code: str, message: str) -> str:
    return (
        f"Azure.RequestFailedException: {message}\nStatus: 409 (Conflict)\nErrorCode: {code}\n\nContent:\n"
        f"{json.dumps(body(code, message), indent=2)}\n\nHeaders:\nCache-Control: no-cache\nx-ms-request-id: REDACTED"
    )


def dotnet_without_content(code: str, message: str) -> str:
    return f"Unhandled exception. Azure.RequestFailedException: {message}\nStatus: 409 (Conflict)\nErrorCode: {code}"


def java(code: str, message: str) -> str:
    return (
        'Exception in thread "main" com.azure.core.management.exception.ManagementException: Status code 409, '
        f'"{json.dumps(body(code, message))}": {message}\n'
        "\tat java.base/java.lang.invoke.MethodHandle.invokeWithArguments(MethodHandle.java:732)"
    )


def javascript(code: str, message: str) -> str:
    return (
        f"RestError: {message}\n    at handleErrorResponse (/app/node_modules/@azure/core-client/dist/index.js:1306)\n"
        f"  code: '{code}',\n  statusCode: 409,\n  request: {{ url: 'https://management.azure.com{ID}' }},\n"
        f"  details: {{ error: {{ code: '{code}', message: {json.dumps(message)} }} }}\n}}"
    )


def ruby(code: str, message: str) -> str:
    return json.dumps({"status": "Failed", **body(code, message, 1)}, indent=1).replace('": ', '"=>')


def autorest(code: str, message: str) -> str:
    return (
        f'Error: creating Linux Virtual Machine Scale Set: (Name "rack64" / Resource Group "rg"): '
        "compute.VirtualMachineScaleSetsClient#CreateOrUpdate: Failure sending request: StatusCode=0 -- Original "
        f'Error: autorest/azure: Service returned an error. Status=<nil> Code="{code}" Message={json.dumps(message)}'
    )


def autorest_details(code: str, message: str) -> str:
    details = json.dumps([{"code": code, "message": message, "target": "7"}])
    return (
        'Code="DeploymentFailed" Message="At least one resource deployment operation failed. Please list deployment '
        f'operations for details. Please see https://aka.ms/DeployOperations for usage details." Details={details}'
    )


def terraform_box(code: str, message: str) -> str:
    said = (
        f'Error: creating Virtual Machine Scale Set (Subscription: "a0000001" Resource Group Name: "rg"): '
        f"performing CreateOrUpdate: unexpected status 409 (409 Conflict) with error: {code}: {message}"
    )
    lines = textwrap.wrap(said, 88)
    frame = ["\u2577", *(f"\u2502 {line}" for line in lines), "\u2502 ", "\u2502   on main.tf line 12", "\u2575"]
    return "\n".join(frame)


def terraform_polling(code: str, message: str) -> str:
    return (
        "Error: polling after CreateOrUpdate: polling failed: the Azure API returned the following error:\n\n"
        f'Status: "{code}"\nCode: ""\nMessage: {json.dumps(message)}\nActivity Id: ""\n\n---\n\nAPI Response:\n\n'
        f"----[start]----\n{json.dumps({'status': 'Failed', **body(code, message)})}\n-----[end]-----"
    )


def azcore(code: str, message: str) -> str:
    return (
        f"PUT https://management.azure.com{ID}/providers/Microsoft.Compute/virtualMachineScaleSets/rack64\n{RULE}\n"
        f"RESPONSE 409: 409 Conflict\nERROR CODE: {code}\n{RULE}\n{plain_json(code, message)}\n{RULE}"
    )


def azcore_in_box(code: str, message: str) -> str:
    return "\n".join(f"\u2502 {line}" for line in azcore(code, message).split("\n"))


def azcore_in_log(code: str, message: str) -> str:
    return json.dumps({"level": "ERROR", "logger": "controller", "message": azcore(code, message)})


def capz(code: str, message: str) -> str:
    error = f'failed to create VM rack64: Code="{code}" Message={json.dumps(message)}'
    return (
        'E0411 04:43:03.535382 1 controller.go:317] controller/azuremachine "msg"="Reconciler error" '
        f'"error"={json.dumps(error)} "name"="rack64"'
    )


def logfmt(code: str, message: str) -> str:
    error = f'Error: Code="{code}" Message={json.dumps(message)}'
    return f'level=error msg={json.dumps(error)}\nlevel=error\nlevel=fatal msg="failed to fetch Cluster"'


def aks(code: str, message: str) -> str:
    original = f'autorest/azure: Service returned an error. Status=<nil> Code="{code}" Message={json.dumps(message)}'
    said = (
        "VMSSAgentPoolReconciler retry failed: Category: InternalError; SubCode: ; Dependency: "
        f"Microsoft.Compute/VirtualMachineScaleSet; OrginalError: {original}; AKSTeam: , Retriable: true."
    )
    return f'Code="ReconcileVMSSAgentPoolFailed" Message={json.dumps(said)}'


def activity_log(code: str, message: str) -> str:
    inner = json.dumps({"status": "Failed", **body(code, message)})
    return json.dumps({"operationName": {"value": "Microsoft.Compute/virtualMachineScaleSets/write"},
                       "properties": {"statusCode": "Conflict", "statusMessage": inner},
                       "status": {"value": "Failed"}, "subStatus": {"value": "Conflict"}}, indent=2)  # fmt: skip


def portal(code: str, message: str) -> str:
    return f"Failed to deploy to azure. {message} (Code: {code}) (Code: DeploymentFailed)"


def kubectl(code: str, message: str) -> str:
    return (
        "Status:\n  Conditions:\n    Last Transition Time:  2026-04-11T04:43:03Z\n    Message:               failed to "
        f"create scale set rack64 in resource group rg: {code}: {message}\n    Reason:                Failed\n"
    )


def devops(code: str, message: str) -> str:
    return (
        "2026-04-28T09:49:25.0000000Z ##[error]At least one resource deployment operation failed. Please list "
        "deployment operations for details. Please see https://aka.ms/DeployOperations for usage details.\n"
        "2026-04-28T09:49:25.0010000Z ##[error]Details:\n"
        f"2026-04-28T09:49:25.0020000Z ##[error]{code}: {message}\n2026-04-28T09:49:25.0030000Z ##[section]Finishing"
    )


def packer(code: str, message: str) -> str:
    return (
        "==> azure-arm: ERROR: -> DeploymentFailed : At least one resource deployment operation failed. Please list "
        "deployment operations for details. Please see https://aka.ms/arm-debug for usage details.\n"
        f"==> azure-arm: ERROR:   -> {code} : {message}\n==> azure-arm:"
    )


def vscode(code: str, message: str) -> str:
    return f"Error type: {code}\nError Message: {message}\n\nVersion: 1.2.0"


def classic_xml(code: str, message: str) -> str:
    return f'<Error xmlns="http://schemas.microsoft.com/windowsazure"><Code>{code}</Code><Message>{message}</Message></Error>'


def instance_view(code: str, message: str) -> str:
    return json.dumps({"statuses": [{"code": f"ProvisioningState/failed/{code}", "level": "Error",
                                     "displayStatus": "Provisioning failed", "message": message},
                                    {"code": "PowerState/stopped", "level": "Info",
                                     "displayStatus": "VM stopped"}]}, indent=2)  # fmt: skip


def go_struct(code: str, message: str) -> str:
    return f"&{{Code:{code} Message:{message} Target:<nil> Details:[]}} Microsoft.Compute"


def yaml(code: str, message: str) -> str:
    return f"error:\n  code: {code}\n  message: >-\n    {message}\n  target: null\nstatus: Failed\nsubscription: x\n"


WRAPPERS: dict[str, Callable[[str, str], str]] = {
    wrapper.__name__: wrapper
    for wrapper in (
        plain_json, nested_json, json_in_message, json_three_deep, az, az_deployment, az_old, python_traceback,
        python_repr, powershell, powershell_status_message, powershell_exception, dotnet, dotnet_without_content, java,
        javascript, ruby, autorest, autorest_details, terraform_box, terraform_polling, azcore, azcore_in_box,
        azcore_in_log, capz, logfmt, aks, activity_log, portal, kubectl, devops, packer, vscode, classic_xml,
        instance_view, go_struct, yaml,
    )
}  # fmt: skip
