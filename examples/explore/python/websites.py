"""An operator of websites with kopf. Each has a Deployment, a Secret and a route.

The environment variable BUG=at-least-once plants a bug: see the README of the examples.
"""

import os
import secrets

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

GROUP = ("example.dev", "v1", "websites")
# The namespace of all routes. An owner reference cannot refer to another namespace, so a handler deletes them.
ROUTES = "routes"
MANAGER = {"field_manager": "website-operator", "force": True, "_content_type": "application/apply-patch+yaml"}


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    config.load_kube_config()
    settings.persistence.finalizer = "example.dev/route"
    # The default of a minute would be longer than the exploration waits for changes.
    settings.execution.default_backoff = 1


@kopf.on.login()
def login(**arguments):
    # The default takes the credentials from the client, which keeps them elsewhere than this version of kopf expects.
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.resume(*GROUP)
@kopf.on.create(*GROUP)
@kopf.on.update(*GROUP, field="spec")
def reconcile(body, spec, status, name, namespace, patch, **_):
    """Makes the children match the spec."""
    deploy(body, spec, name, namespace)
    patch.status["key"] = create_key(body, status, name, namespace)
    publish(spec, name, namespace)
    patch.status["replicas"] = spec["replicas"]


@kopf.on.delete(*GROUP)
def withdraw(name, namespace, **_):
    """Deletes the route of a website that is being deleted."""
    try:
        client.CoreV1Api().delete_namespaced_config_map(route_name(name, namespace), ROUTES)
    except ApiException as error:
        if error.status != 404:
            raise


def deploy(body, spec, name, namespace):
    """Writes the Deployment."""
    labels = {"app.kubernetes.io/instance": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.29"}]},
            },
        },
    }
    kopf.adopt(deployment, owner=body)
    client.AppsV1Api().patch_namespaced_deployment(name, namespace, deployment, **MANAGER)


def create_key(body, status, name, namespace):
    """Creates the Secret with a random key, unless it exists. Returns its name."""
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"key": secrets.token_hex(16)}}
    if os.environ.get("BUG") == "at-least-once":
        # kopf calls the handler again if the operator ends before it has stored the status.
        if "key" in status:
            return status["key"]
        secret["metadata"] = {"generateName": f"{name}-key-"}
    else:
        # The name is unique for the website: a second call cannot create a second Secret.
        secret["metadata"] = {"name": f"{name}-key-{body.metadata.uid[:8]}"}
    kopf.adopt(secret, owner=body)
    try:
        return client.CoreV1Api().create_namespaced_secret(namespace, secret).metadata.name
    except ApiException as error:
        if error.status != 409:
            raise
        return secret["metadata"]["name"]


def publish(spec, name, namespace):
    """Writes the route."""
    route = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": route_name(name, namespace)},
        "data": {"host": spec["host"], "backend": f"{namespace}/{name}"},
    }
    client.CoreV1Api().patch_namespaced_config_map(route["metadata"]["name"], ROUTES, route, **MANAGER)


def route_name(name, namespace):
    return f"{namespace}.{name}"
