"""What programs do with Python's Kubernetes client, unmodified, against an API server.

    flows.py KUBECONFIG

Fails with the first thing that is otherwise than a real API server has it.
"""

import sys
import threading
import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

GROUP, VERSION, PLURAL = "python.example.com", "v1", "websites"


def refused(code, reason, call):
    """The call has to fail so."""
    try:
        call()
    except ApiException as error:
        assert error.status == code, error
        assert f'"reason":"{reason}"' in error.body, error.body
        return
    raise AssertionError(f"not refused with {code}: {call}")


def eventually(what, ask, patience=30):
    """Asks until the answer is true."""
    deadline = time.monotonic() + patience
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {patience} s: {what}"
        time.sleep(0.02)


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "python"}), data=data)


def objects(namespace):
    """Create, read, list in pages, replace, patch in every way, delete."""
    core = client.CoreV1Api()
    for name in "abc":
        core.create_namespaced_config_map(namespace, config_map(name, key=name))
    refused(409, "AlreadyExists", lambda: core.create_namespaced_config_map(namespace, config_map("a")))
    refused(404, "NotFound", lambda: core.read_namespaced_config_map("missing", namespace))
    refused(422, "Invalid", lambda: core.create_namespaced_config_map(namespace, config_map("Not A Name")))

    page = core.list_namespaced_config_map(namespace, label_selector="app=python", limit=2)
    assert [item.metadata.name for item in page.items] == ["a", "b"], page
    rest = core.list_namespaced_config_map(namespace, label_selector="app=python", limit=2, _continue=page.metadata._continue)
    assert [item.metadata.name for item in rest.items] == ["c"], rest

    found = core.read_namespaced_config_map("a", namespace)
    stale = core.read_namespaced_config_map("a", namespace)
    found.data["key"] = "replaced"
    core.replace_namespaced_config_map("a", namespace, found)
    stale.data["key"] = "stale"
    refused(409, "Conflict", lambda: core.replace_namespaced_config_map("a", namespace, stale))

    patched = core.patch_namespaced_config_map("a", namespace, {"data": {"more": "1"}})
    assert patched.data == {"key": "replaced", "more": "1"}, patched
    patched = core.patch_namespaced_config_map("a", namespace, [{"op": "remove", "path": "/data/more"}])
    assert patched.data == {"key": "replaced"}, patched

    deleted = core.delete_namespaced_config_map("a", namespace, body=client.V1DeleteOptions(propagation_policy="Background"))
    assert deleted.status == "Success", deleted
    core.delete_collection_namespaced_config_map(namespace, label_selector="app=python")
    assert not core.list_namespaced_config_map(namespace, label_selector="app=python").items


def watches(namespace):
    """A watch tells what happens, in order, from the version of a list on."""
    core = client.CoreV1Api()
    version = core.list_namespaced_config_map(namespace).metadata.resource_version

    def write():
        core.create_namespaced_config_map(namespace, config_map("watched", step="1"))
        core.patch_namespaced_config_map("watched", namespace, {"data": {"step": "2"}})
        core.delete_namespaced_config_map("watched", namespace)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    stream = watch.Watch()
    for event in stream.stream(
        core.list_namespaced_config_map,
        namespace,
        resource_version=version,
        field_selector="metadata.name=watched",
        timeout_seconds=30,
    ):
        seen.append((event["type"], event["object"].data["step"]))
        if event["type"] == "DELETED":
            stream.stop()
    writer.join()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], seen


def workloads(namespace):
    """A deployment, its defaults, its scale and its status."""
    apps = client.AppsV1Api()
    container = client.V1Container(name="web", image="nginx", ports=[client.V1ContainerPort(container_port=80)])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
    )
    deployment = client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(selector=client.V1LabelSelector(match_labels={"app": "web"}), template=template),
    )
    created = apps.create_namespaced_deployment(namespace, deployment)
    assert created.spec.replicas == 1 and created.spec.strategy.type == "RollingUpdate", created
    assert created.spec.template.spec.containers[0].ports[0].protocol == "TCP", created
    scaled = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 4}})
    assert scaled.spec.replicas == 4, scaled
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 4
    apps.delete_namespaced_deployment("web", namespace)


def definition():
    properties = {
        "spec": {"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}, "size": {"type": "integer", "default": 3}}},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": PLURAL, "singular": "website", "kind": "Website"},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def custom_resources(namespace):
    """A definition, and objects of it: without types, and by the dynamic client with server-side apply."""
    extensions, custom = client.ApiextensionsV1Api(), client.CustomObjectsApi()
    name = f"{PLURAL}.{GROUP}"
    extensions.create_custom_resource_definition(definition())

    def established():
        conditions = extensions.read_custom_resource_definition(name).status.conditions or []
        return any(condition.type == "Established" and condition.status == "True" for condition in conditions)

    eventually("the definition is established", established)
    body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Website", "metadata": {"name": "blog"}, "spec": {"image": "nginx"}}
    created = custom.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, body)
    assert created["spec"] == {"image": "nginx", "size": 3}, created
    broken = dict(body, metadata={"name": "broken"}, spec={"image": 1})
    refused(422, "Invalid", lambda: custom.create_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, broken))
    custom.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, "blog", {"status": {"ready": True}})
    found = custom.get_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, "blog")
    assert found["status"] == {"ready": True} and found["metadata"]["generation"] == 1, found

    resources = dynamic.DynamicClient(client.ApiClient())
    websites = resources.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Website")
    applied = resources.server_side_apply(
        websites, body=dict(body, spec={"image": "httpd"}), name="blog", namespace=namespace, field_manager="flows", force_conflicts=True
    )
    assert applied.spec.image == "httpd" and applied.spec.size == 3, applied
    assert [item.metadata.name for item in websites.get(namespace=namespace).items] == ["blog"]
    websites.delete(name="blog", namespace=namespace)
    extensions.delete_custom_resource_definition(name)


def manifests(namespace):
    """Objects from a document, and questions what one may do."""
    documents = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"key": "value"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}},
    ]
    utils.create_from_yaml(client.ApiClient(), yaml_objects=documents, namespace=namespace)
    core = client.CoreV1Api()
    assert core.read_namespaced_secret("keys", namespace).data == {"key": "dmFsdWU="}
    assert core.read_namespaced_service("web", namespace).spec.ports[0].target_port == 80
    attributes = client.V1ResourceAttributes(namespace=namespace, verb="delete", resource="pods")
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    assert client.AuthorizationV1Api().create_self_subject_access_review(review).status.allowed


FLOWS = [objects, watches, workloads, custom_resources, manifests]


def main():
    config.load_kube_config(sys.argv[1])
    core = client.CoreV1Api()
    assert client.VersionApi().get_code().major == "1"
    namespace = core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(generate_name="python-"))).metadata.name
    # With service account admission, pods need their account.
    eventually("the namespace's account", lambda: core.list_namespaced_service_account(namespace).items)
    try:
        for flow in FLOWS:
            flow(namespace)
            print(f"ok {flow.__name__}")
    finally:
        core.delete_namespace(namespace)


main()
