# apply: server-side, with several managers, and with pruning.

printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {colour: blue, size: large}\n' >"$work/shared.yaml"
expect "apply on the server" 'configmap/shared serverside-applied' apply --server-side -f "$work/shared.yaml"
version=$(k get configmap shared -o 'jsonpath={.metadata.resourceVersion}')
expect "again" 'configmap/shared serverside-applied' apply --server-side -f "$work/shared.yaml"
TRANSCRIPT= expect "that changes nothing" "^$version\n?\$" get configmap shared -o 'jsonpath={.metadata.resourceVersion}'
expect "who manages what" 'manager: kubectl\n +operation: Apply' get configmap shared -o yaml --show-managed-fields
sed 's/blue/red/; s/, size: large//' "$work/shared.yaml" >"$work/other.yaml"
refuse "another hand" 'Apply failed with 1 conflict: conflict with "kubectl": \.data\.colour\nPlease review the fields above--they currently have other managers' \
  apply --server-side --field-manager=other -f "$work/other.yaml"
expect "by force" 'configmap/shared serverside-applied' apply --server-side --field-manager=other --force-conflicts -f "$work/other.yaml"
expect "the rest stays" '^\{"colour":"red","size":"large"\}' get configmap shared -o 'jsonpath={.data}'
sed 's/colour: blue, //' "$work/shared.yaml" >"$work/less.yaml"
expect "the first gives up what it lost" 'serverside-applied' apply --server-side -f "$work/less.yaml"
expect "the other's stays" '^\{"colour":"red","size":"large"\}' get configmap shared -o 'jsonpath={.data}'
expect "the other leaves" 'serverside-applied' apply --server-side --field-manager=other -f - < <(sed '/^data/d' "$work/other.yaml")
expect "and takes its own along" '^\{"size":"large"\}' get configmap shared -o 'jsonpath={.data}'
expect "apply on the server without effect" 'configmap/unseen serverside-applied \(server dry run\)' apply --server-side --dry-run=server -f - < <(sed 's/shared/unseen/' "$work/shared.yaml")
refuse "an unknown field is refused there too" 'field not declared in schema|unknown field "spec.replica"' apply --server-side -f "$work/bad.yaml"

# Migration from client-side to server-side apply.
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: one, b: two}\n' >"$work/moved.yaml"
expect "apply by the client" 'configmap/moved created' apply -f "$work/moved.yaml"
expect "what was applied last" 'data:\n  a: one\n  b: two\n' apply view-last-applied configmap/moved
sed -i 's/, b: two//' "$work/moved.yaml"
expect "then on the server" 'configmap/moved serverside-applied' apply --server-side -f "$work/moved.yaml"
expect "what is left out goes" '^\{"a":"one"\}' get configmap moved -o 'jsonpath={.data}'
expect "the old manager is gone" '^kubectl-last-applied kubectl\n?$' get configmap moved -o 'jsonpath={.metadata.managedFields[*].manager}'
expect "set what was applied last" 'set-last-applied moved: no changes required' apply set-last-applied --create-annotation -f "$work/moved.yaml"

# Lists with merge keys.
printf 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: merged}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: merged}}\n  template:\n    metadata: {labels: {app: merged}}\n    spec: {containers: [{name: main, image: nginx, env: [{name: A, value: x}]}]}\n' >"$work/merged.yaml"
expect "apply a deployment" 'deployment.apps/merged serverside-applied' apply --server-side -f "$work/merged.yaml"
expect "it rolls out" 'successfully rolled out' rollout status deployment/merged --timeout=60s
expect "scale it" 'scaled' scale deployment merged --replicas=2
refuse "apply over the scale" 'conflict with "kubectl" with subresource "scale" using apps/v1: \.spec\.replicas' apply --server-side -f "$work/merged.yaml"
expect "let go of replicas" 'serverside-applied' apply --server-side -f - < <(sed '/replicas: 1/d' "$work/merged.yaml")
expect "the scale stays" '^2' get deployment merged -o 'jsonpath={.spec.replicas}'
expect "set env beside it" 'env updated' set env deployment/merged B=y
expect "apply keeps it" 'serverside-applied' apply --server-side -f - < <(sed '/replicas: 1/d' "$work/merged.yaml")
expect "both are there" '^A B' get deployment merged -o 'jsonpath={.spec.template.spec.containers[0].env[*].name}'
expect "delete it" 'deleted' delete deployment merged

# Custom resources, by their schemas.
printf 'apiVersion: example.org/v1\nkind: Boat\nmetadata: {name: blue}\nspec: {harbour: kiel, rig: sloop}\n' >"$work/boat.yaml"
expect "apply a boat on the server" 'boat.example.org/blue serverside-applied' apply --server-side -f "$work/boat.yaml"
refuse "another's boat" 'conflict with "kubectl": \.spec\.rig' apply --server-side --field-manager=other -f - < <(sed 's/sloop/ketch/' "$work/boat.yaml")
expect "a boat's diff" '^\n?$' diff --server-side -f "$work/boat.yaml"

# Pruning.
mkdir -p "$work/set"
for name in one two; do
  printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {set: prune}}\ndata: {a: b}\n' $name >"$work/set/$name.yaml"
done
expect "apply a directory" 'configmap/one created\nconfigmap/two created' apply -f "$work/set" --prune -l set=prune --prune-allowlist=core/v1/ConfigMap
rm "$work/set/two.yaml"
expect "prune without effect" 'configmap/two pruned \(server dry run\)' apply --dry-run=server -f "$work/set" --prune -l set=prune --prune-allowlist=core/v1/ConfigMap
expect "prune" 'configmap/one unchanged\nconfigmap/two pruned' apply -f "$work/set" --prune -l set=prune --prune-allowlist=core/v1/ConfigMap
refuse "it is gone" '"two" not found' get configmap two
export KUBECTL_APPLYSET=true
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: three}\ndata: {a: b}\n' >"$work/set/three.yaml"
rm "$work/set/one.yaml"
expect "apply a set" 'configmap/three (created|serverside-applied)' apply --server-side -n default -f "$work/set" --prune --applyset=harbour
expect "its members are labelled" 'configmap/three' get configmaps -l applyset.kubernetes.io/part-of -o name
mv "$work/set/three.yaml" "$work/three.yaml"
sed 's/three/four/' "$work/three.yaml" >"$work/set/four.yaml"
expect "prune a set" 'configmap/four serverside-applied\nconfigmap/three pruned' apply --server-side -n default -f "$work/set" --prune --applyset=harbour
unset KUBECTL_APPLYSET
expect "clean up" 'deleted' delete configmap shared moved one four
expect "delete the boats" 'deleted' delete crd boats.example.org --timeout=30s
