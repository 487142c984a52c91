# diff, edit, replace, patch.

printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tone}\ndata: {colour: blue, size: large}\n' >"$work/tone.yaml"
refuse "diff of what is not there" '\n\+  colour: blue\n\+  size: large\n' diff -f "$work/tone.yaml"
refuse "diff has created nothing" '"tone" not found' get configmap tone
expect "apply" 'configmap/tone created' apply -f "$work/tone.yaml"
expect "diff of the same is empty" '^\n?$' diff -f "$work/tone.yaml"
sed -i 's/blue/red/' "$work/tone.yaml"
refuse "diff of a change" '\n-  colour: blue\n\+  colour: red\n' diff -f "$work/tone.yaml"
refuse "diff on the server" '\n-  colour: blue\n\+  colour: red\n' diff --server-side --force-conflicts -f "$work/tone.yaml"
expect "diff has changed nothing" '^blue' get configmap tone -o 'jsonpath={.data.colour}'
expect "apply without effect" 'configmap/tone configured \(server dry run\)' apply --dry-run=server -f "$work/tone.yaml"
expect "it had none" '^blue' get configmap tone -o 'jsonpath={.data.colour}'

edit 's/colour: blue/colour: green/'
expect "edit" 'configmap/tone edited' edit configmap tone
expect "it is edited" '^green' get configmap tone -o 'jsonpath={.data.colour}'
expect "edit without a change" 'Edit cancelled, no changes made' edit configmap tone
edit 's/"green"/"grey"/'
expect "edit as json" '"colour": "grey"' edit configmap tone -o json
edit 's/grey/black/'
expect "edit prints its patch" 'Patch: \{.*"colour":"black".*\}\nconfigmap/tone edited' edit configmap tone --output-patch
edit 's/colour: black/colour: [1]/'
refuse "edit to what does not fit" 'error: Edit cancelled, no valid changes were saved|failed' edit configmap tone
expect "it is as it was" '^black' get configmap tone -o 'jsonpath={.data.colour}'
edit 's/name: tone/name: other/'
refuse "edit the name" 'At least one of apiVersion, kind and name was changed' edit configmap tone
edit 's/colour: .*/colour: white/'
expect "edit two at once" 'configmap/\S+ edited' edit configmap tone settings
edit 's/size: large/size: huge/'
expect "edit what was applied" 'configmap/tone edited' apply edit-last-applied configmap/tone
unset KUBE_EDITOR

cat >"$work/tone.yaml" <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata: {name: tone}
data: {colour: pink}
YAML
expect "replace" 'configmap/tone replaced' replace -f "$work/tone.yaml"
expect "nothing else is left" '^\{"colour":"pink"\}' get configmap tone -o 'jsonpath={.data}'
expect "it has lost what was applied" '^\n?$' get configmap tone -o 'jsonpath={.metadata.annotations}'
refuse "replace what is not there" 'Error from server \(NotFound\): error when replacing .*configmaps "gone" not found' replace -f - < <(sed 's/tone/gone/' "$work/tone.yaml")
old=$(k get configmap tone -o 'jsonpath={.metadata.resourceVersion}')
expect "replace again" 'configmap/tone replaced' replace -f - < <(sed 's/pink/rose/' "$work/tone.yaml")
refuse "replace an old version" 'Error from server \(Conflict\): error when replacing .*Operation cannot be fulfilled on configmaps "tone": the object has been modified; please apply your changes to the latest version and try again' \
  replace -f - < <(sed "s/name: tone/name: tone, resourceVersion: \"$old\"/" "$work/tone.yaml")
uid=$(k get configmap tone -o 'jsonpath={.metadata.uid}')
expect "replace by force" 'configmap "tone" deleted.*\nconfigmap/tone replaced' replace --force -f "$work/tone.yaml"
judge "it is another one" 'other' "$([ "$uid" = "$(k get configmap tone -o 'jsonpath={.metadata.uid}')" ] && echo same || echo other)" ok "get uid"

expect "a patch that changes nothing" 'configmap/tone patched \(no change\)' patch configmap tone --type=merge -p '{"data":{"colour":"pink"}}'
expect "patch without effect" 'configmap/tone patched' patch configmap tone --dry-run=server --type=merge -p '{"data":{"colour":"x"}}'
expect "it had none" '^pink' get configmap tone -o 'jsonpath={.data.colour}'
expect "patch from a file" 'configmap/tone patched' patch configmap tone --patch-file=/dev/stdin < <(echo 'data: {size: small}')
expect "delete a key" 'configmap/tone patched' patch configmap tone --type=merge -p '{"data":{"size":null}}'
expect "it is gone" '^\{"colour":"pink"\}' get configmap tone -o 'jsonpath={.data}'
expect "label all" 'configmap/tone labeled' label configmaps --all kept=yes
expect "shown labels" 'tone +1 +\S+ +kept=yes' get configmap tone --show-labels
expect "a label's column" 'NAME +DATA +AGE +KEPT\ntone +1 +\S+ +yes' get configmap tone -L kept
expect "the list of labels" 'kept=yes' label configmap tone --list
expect "overwrite a label" 'configmap/tone labeled' label configmap tone kept=no --overwrite
expect "sorted" 'tone(.*\n)*settings' get configmaps --sort-by='{.data.colour}'
expect "delete without effect" 'configmap "tone" deleted.*\(server dry run\)' delete configmap tone --dry-run=server
expect "delete by label" 'configmap "tone" deleted' delete configmaps -l kept=no
expect "delete nothing" '^\n?$' delete configmap tone --ignore-not-found
