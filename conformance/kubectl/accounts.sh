# Service accounts of pods, and their restrictions. The pods need not run.

# account NAME FIELDS: applies a service account with these fields.
account() { k apply -f - < <(printf 'apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s%s}\n%s\n' "$1" "${3:-}" "$2") >/dev/null 2>&1; }
# pod SPEC [METADATA]: prints the manifest of a pod with that spec in flow style.
pod() { printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: kept%s}\nspec: {%s}\n' "${2:-}" "$1"; }
container='containers: [{name: main, image: i}]'

expect "a pod of the default account" '(?s)serviceAccountName: default\n.*  - name: kube-api-access-\w{5}\n    projected:' create --dry-run=server -o yaml -f - < <(pod "$container")
expect "a pod without a token" '^ default\n?$' create --dry-run=server -o 'jsonpath={.spec.volumes} {.spec.serviceAccountName}' -f - < <(pod "automountServiceAccountToken: false, $container")
account quiet 'automountServiceAccountToken: false
imagePullSecrets: [{name: pull}, {name: other}]'
expect "of an account without tokens" '^ pull other\n?$' create --dry-run=server -o 'jsonpath={.spec.volumes} {.spec.imagePullSecrets[*].name}' -f - < <(pod "serviceAccountName: quiet, $container")
expect "that asks for one" '^ca.crt' create --dry-run=server -o 'jsonpath={.spec.volumes[*].projected.sources[*].configMap.items[*].key}' -f - < <(pod "automountServiceAccountToken: true, serviceAccountName: quiet, $container")
expect "with secrets of its own" '^mine\n?$' create --dry-run=server -o 'jsonpath={.spec.imagePullSecrets[*].name}' -f - < <(pod "serviceAccountName: quiet, imagePullSecrets: [{name: mine}], $container")
expect "by the older name" '^quiet quiet\n?$' create --dry-run=server -o 'jsonpath={.spec.serviceAccount} {.spec.serviceAccountName}' -f - < <(pod "serviceAccount: quiet, $container")
expect "with something in its place" '^own kube-api-access-\w{5}\n?$' create --dry-run=server -o 'jsonpath={.spec.containers[0].volumeMounts[*].name} {.spec.initContainers[0].volumeMounts[*].name}' -f - < <(
  pod 'volumes: [{name: own, emptyDir: {}}], initContainers: [{name: first, image: i}], containers: [{name: main, image: i, volumeMounts: [{name: own, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]')
expect "with a volume from elsewhere" '^kube-api-access-given kube-api-access-given\n?$' create --dry-run=server -o 'jsonpath={.spec.containers[0].volumeMounts[*].name} {.spec.volumes[*].name}' -f - < <(
  pod "volumes: [{name: kube-api-access-given, emptyDir: {}}], $container")
refuse "of an account that is not there" 'pods "kept" is forbidden: error looking up service account default/ghost: serviceaccount "ghost" not found' create -f - < <(pod "serviceAccountName: ghost, $container")
refuse "which is told before what else is wrong" 'error looking up service account default/ghost' create -f - < <(pod 'serviceAccountName: ghost, containers: [{name: Bad, image: i}]')

# A mirror pod of a kubelet.
mirror=', annotations: {kubernetes.io/config.mirror: x}'
expect "a mirror pod" '^ \n?$' create --dry-run=server -o 'jsonpath={.spec.volumes} {.spec.serviceAccountName}' -f - < <(pod "nodeName: node-0, $container" "$mirror")
refuse "of an account" 'a mirror pod may not reference service accounts' create -f - < <(pod "nodeName: node-0, serviceAccountName: default, $container" "$mirror")
for volume in 'secret: {secretName: x}' 'projected: {sources: [{secret: {name: x}}]}' 'csi: {driver: d, nodePublishSecretRef: {name: x}}'; do
  refuse "with a secret" 'a mirror pod may not reference secrets' create -f - < <(pod "nodeName: node-0, volumes: [{name: v, $volume}], $container" "$mirror")
done
refuse "that pulls with a secret" 'a mirror pod may not reference secrets' create -f - < <(pod "nodeName: node-0, imagePullSecrets: [{name: x}], $container" "$mirror")
refuse "with a token" 'a mirror pod may not use ServiceAccountToken volume projections' create -f - < <(pod "nodeName: node-0, volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}], $container" "$mirror")

# An account with a list of permitted secrets.
expect "an account that insists" 'serviceaccount/strict created' apply -f - < <(printf 'apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: strict, annotations: {kubernetes.io/enforce-mountable-secrets: "true"}}\nsecrets: [{name: listed}]\nimagePullSecrets: [{name: pull}]\n')
strict='serviceAccountName: strict'
expect "uses what is listed" 'pod/kept created \(server dry run\)' create --dry-run=server -f - < <(pod "$strict, volumes: [{name: v, secret: {secretName: listed}}], $container")
refuse "a volume" 'volume with secret.secretName="other" is not allowed because service account strict does not reference that secret' create -f - < <(pod "$strict, volumes: [{name: v, secret: {secretName: other}}], $container")
refuse "a variable" 'container main with envVar X referencing secret.secretName="other" is not allowed' create -f - < <(pod "$strict, containers: [{name: main, image: i, env: [{name: X, valueFrom: {secretKeyRef: {name: other, key: k}}}]}]")
refuse "all of it, to begin with" 'init container first with envFrom referencing secret.secretName="other" is not allowed' create -f - < <(pod "$strict, initContainers: [{name: first, image: i, envFrom: [{secretRef: {name: other}}]}], $container")
refuse "to pull with" 'imagePullSecrets\[0\].name="other" is not allowed because service account strict does not reference that imagePullSecret' create -f - < <(pod "$strict, imagePullSecrets: [{name: other}], $container")
refuse "also if more is wrong" 'imagePullSecrets\[0\].name="other" is not allowed' create -f - < <(pod "$strict, imagePullSecrets: [{name: other}], containers: [{name: Bad, image: i}]")
expect "a pod of it" 'pod/kept created' create -f - < <(pod "$strict, $container")
ephemeral() { printf '{"spec":{"ephemeralContainers":[{"name":"look","image":"i","env":[{"name":"X","valueFrom":{"secretKeyRef":{"name":"%s","key":"k"}}}]}]}}' "$1"; }
refuse "is not looked into with others" 'ephemeral container look with envVar X referencing secret.secretName="other" is not allowed' patch pod kept --subresource=ephemeralcontainers -p "$(ephemeral other)"
expect "but with what is listed" 'pod/kept patched' patch pod kept --subresource=ephemeralcontainers -p "$(ephemeral listed)"
expect "delete it" 'deleted' delete pod kept --now
expect "and the accounts" 'deleted' delete serviceaccount quiet strict
