// Typical flows of the unmodified JavaScript Kubernetes client with an API server.
//
//     node flows.mjs KUBECONFIG
//
// Fails at the first difference from a real API server.

import assert from "node:assert/strict";
import process from "node:process";
import * as k8s from "@kubernetes/client-node";

const [group, version, plural] = ["javascript.example.com", "v1", "websites"];
const PATIENCE = 30_000;

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const extensions = config.makeApiClient(k8s.ApiextensionsV1Api);

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Asks until the answer is true. */
async function eventually(what, ask) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    assert(Date.now() < deadline, `not in time: ${what}`);
    await sleep(20);
  }
}

/** The call has to fail so. */
async function refused(code, reason, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, code, String(error));
    assert.equal(JSON.parse(error.body).reason, reason);
    return true;
  });
}

const configMap = (name, data) => ({ metadata: { name, labels: { app: "javascript" } }, data });
const patchOf = (strategy) => k8s.setHeaderOptions("Content-Type", strategy);

/** Create, read, list in pages, replace, patch in every way, delete. */
async function objects(namespace) {
  for (const name of ["a", "b", "c"]) {
    await core.createNamespacedConfigMap({ namespace, body: configMap(name, { key: name }) });
  }
  await refused(409, "AlreadyExists", () => core.createNamespacedConfigMap({ namespace, body: configMap("a") }));
  await refused(404, "NotFound", () => core.readNamespacedConfigMap({ namespace, name: "missing" }));
  await refused(422, "Invalid", () => core.createNamespacedConfigMap({ namespace, body: configMap("Not A Name") }));

  const labelSelector = "app=javascript";
  const page = await core.listNamespacedConfigMap({ namespace, labelSelector, limit: 2 });
  assert.deepEqual(page.items.map((item) => item.metadata.name), ["a", "b"]);
  const rest = await core.listNamespacedConfigMap({ namespace, labelSelector, limit: 2, _continue: page.metadata._continue });
  assert.deepEqual(rest.items.map((item) => item.metadata.name), ["c"]);

  const found = await core.readNamespacedConfigMap({ namespace, name: "a" });
  assert(found.metadata.creationTimestamp instanceof Date);
  const stale = structuredClone(found);
  await core.replaceNamespacedConfigMap({ namespace, name: "a", body: { ...found, data: { key: "replaced" } } });
  await refused(409, "Conflict", () => core.replaceNamespacedConfigMap({ namespace, name: "a", body: { ...stale, data: {} } }));

  const patch = (body, strategy) => core.patchNamespacedConfigMap({ namespace, name: "a", body }, patchOf(strategy));
  assert.equal((await patch({ data: { one: "1" } }, k8s.PatchStrategy.StrategicMergePatch)).data.one, "1");
  assert.equal((await patch({ data: { one: null } }, k8s.PatchStrategy.MergePatch)).data.one, undefined);
  const replaced = await patch([{ op: "replace", path: "/data/key", value: "z" }], k8s.PatchStrategy.JsonPatch);
  assert.deepEqual(replaced.data, { key: "z" });

  await core.deleteNamespacedConfigMap({ namespace, name: "a" });
  await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector });
  assert.equal((await core.listNamespacedConfigMap({ namespace, labelSelector })).items.length, 0);
}

/** A watch tells what happens, in order; an informer keeps up with it. */
async function watches(namespace) {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const { metadata } = await core.listNamespacedConfigMap({ namespace });
  const seen = [];
  const watch = new k8s.Watch(config);
  const query = { resourceVersion: metadata.resourceVersion, fieldSelector: "metadata.name=watched" };
  const ended = [];
  const stop = await watch.watch(path, query, (type, object) => seen.push([type, object.data.step]), (error) => ended.push(error));

  const informer = k8s.makeInformer(config, path, () => core.listNamespacedConfigMap({ namespace }));
  const told = [];
  for (const event of ["add", "update", "delete"]) {
    informer.on(event, (object) => object.metadata.name === "watched" && told.push(event));
  }
  await informer.start();

  await core.createNamespacedConfigMap({ namespace, body: configMap("watched", { step: "1" }) });
  const body = { data: { step: "2" } };
  await core.patchNamespacedConfigMap({ namespace, name: "watched", body }, patchOf(k8s.PatchStrategy.MergePatch));
  await core.deleteNamespacedConfigMap({ namespace, name: "watched" });
  await eventually("the watch tells of all", () => seen.length === 3);
  await eventually("the informer tells of all", () => told.length === 3);
  assert.deepEqual(seen, [["ADDED", "1"], ["MODIFIED", "2"], ["DELETED", "2"]]);
  assert.deepEqual(told, ["add", "update", "delete"]);
  stop.abort();
  await informer.stop();
  await eventually("the watch ends", () => ended.length > 0);
}

/** A deployment, its defaults and its scale. */
async function workloads(namespace) {
  const labels = { app: "web" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "web", image: "nginx" }] } };
  const body = { metadata: { name: "web" }, spec: { selector: { matchLabels: labels }, template } };
  const created = await apps.createNamespacedDeployment({ namespace, body });
  assert.deepEqual([created.spec.replicas, created.spec.strategy.type], [1, "RollingUpdate"]);
  const scale = { namespace, name: "web", body: { spec: { replicas: 4 } } };
  const scaled = await apps.patchNamespacedDeploymentScale(scale, patchOf(k8s.PatchStrategy.MergePatch));
  assert.equal(scaled.spec.replicas, 4);
  assert.equal((await apps.readNamespacedDeployment({ namespace, name: "web" })).spec.replicas, 4);
  await apps.deleteNamespacedDeployment({ namespace, name: "web" });
}

/** A definition, and objects of it. */
async function customResources(namespace) {
  const name = `${plural}.${group}`;
  const spec = { type: "object", required: ["image"], properties: { image: { type: "string" }, size: { type: "integer", _default: 3 } } };
  const status = { type: "object", properties: { ready: { type: "boolean" } } };
  const schema = { openAPIV3Schema: { type: "object", properties: { spec, status } } };
  await extensions.createCustomResourceDefinition({
    body: {
      metadata: { name },
      spec: {
        group,
        scope: "Namespaced",
        names: { plural, singular: "website", kind: "Website" },
        versions: [{ name: version, served: true, storage: true, schema, subresources: { status: {} } }],
      },
    },
  });
  await eventually("the definition is established", async () => {
    const { status } = await extensions.readCustomResourceDefinition({ name });
    return status?.conditions?.some((condition) => condition.type === "Established" && condition.status === "True");
  });
  const place = { group, version, namespace, plural };
  const website = { apiVersion: `${group}/${version}`, kind: "Website", metadata: { name: "blog" }, spec: { image: "nginx" } };
  const created = await custom.createNamespacedCustomObject({ ...place, body: website });
  assert.deepEqual(created.spec, { image: "nginx", size: 3 });
  const broken = { ...website, metadata: { name: "broken" }, spec: { image: 1 } };
  await refused(422, "Invalid", () => custom.createNamespacedCustomObject({ ...place, body: broken }));
  const ready = { body: { status: { ready: true } }, name: "blog" };
  await custom.patchNamespacedCustomObjectStatus({ ...place, ...ready }, patchOf(k8s.PatchStrategy.MergePatch));
  const found = await custom.getNamespacedCustomObject({ ...place, name: "blog" });
  assert.deepEqual([found.status, found.metadata.generation], [{ ready: true }, 1]);
  await custom.deleteNamespacedCustomObject({ ...place, name: "blog" });
  await extensions.deleteCustomResourceDefinition({ name });
}

/** Objects of whatever kind, by what they say of themselves. */
async function manifests(namespace) {
  const any = k8s.KubernetesObjectApi.makeApiClient(config);
  const documents = k8s.loadAllYaml(`
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: ${namespace}}
stringData: {key: value}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: ${namespace}}
spec: {ports: [{port: 80}]}
`);
  for (const document of documents) await any.create(document);
  const secret = await any.read(documents[0]);
  assert.equal(secret.data.key, "dmFsdWU=");
  const applied = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "applied", namespace }, data: { a: "b" } };
  const options = [undefined, undefined, "flows", true, k8s.PatchStrategy.ServerSideApply];
  assert.deepEqual((await any.patch(applied, ...options)).data, { a: "b" });
  for (const document of documents) await any.delete(document);
  await refused(404, "NotFound", () => any.read(documents[0]));
}

const created = await core.createNamespace({ body: { metadata: { generateName: "javascript-" } } });
const namespace = created.metadata.name;
try {
  // With service account admission, pods need their account.
  await eventually("the namespace's account", async () => (await core.listNamespacedServiceAccount({ namespace })).items.length);
  for (const flow of [objects, watches, workloads, customResources, manifests]) {
    await flow(namespace);
    console.log(`ok ${flow.name}`);
  }
} finally {
  await core.deleteNamespace({ name: namespace });
}
