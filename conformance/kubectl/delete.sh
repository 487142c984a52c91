# delete: every selection, with and without waiting.

for name in one two three four five; do k create configmap "heap-$name" --from-literal=a=b >/dev/null; done
k label configmap heap-one heap-two heap=yes >/dev/null
expect "delete by label" 'configmap "heap-one" deleted.*\nconfigmap "heap-two" deleted' delete configmap -l heap=yes
expect "delete by field" 'configmap "heap-three" deleted' delete configmap --field-selector=metadata.name=heap-three
expect "delete by path" 'configmap "heap-four" deleted' delete configmap/heap-four
expect "delete, named" '^configmap/heap-five\n?$' delete configmap heap-five -o name
expect "delete nothing by label" 'No resources found' delete configmap -l heap=yes
refuse "delete all and one" 'name cannot be provided when a selector is specified|error' delete configmap x --all
refuse "delete nothing at all" 'resource\(s\) were provided, but no name was specified|must specify' delete configmap
expect "create a namespace of many" 'created' create namespace heap
for name in one two three; do k create configmap "heap-$name" -n heap >/dev/null; done
expect "delete all without effect" '(configmap "\S+" deleted.*\(server dry run\)\n?){3,}' delete configmap --all -n heap --dry-run=server
expect "delete all" '(configmap "\S+" deleted.*\n?){3,}' delete configmap --all -n heap
expect "without waiting" 'namespace "heap" deleted' delete namespace heap --wait=false
TRANSCRIPT= expect "it goes" '.*' wait namespace/heap --for=delete --timeout=60s
expect "a file to delete" 'created' create -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: filed}\n')
expect "delete a file" 'configmap "filed" deleted' delete -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: filed}\n')
expect "what does not go by itself" 'created' create -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.org/hold]}\n')
expect "is deleted and stays" 'configmap "held" deleted' delete configmap held --wait=false
expect "it shows" '^20' get configmap held -o 'jsonpath={.metadata.deletionTimestamp}'
refuse "it does not go" 'timed out waiting for the condition on configmaps/held' delete configmap held --timeout=1s
expect "let it go" 'configmap/held patched' patch configmap held --type=merge -p '{"metadata":{"finalizers":null}}'
refuse "it is gone" 'configmaps "held" not found' get configmap held
expect "a pod to end" 'created' run slow --image=nginx
expect "it runs" 'condition met' wait pod/slow --for=condition=Ready --timeout=60s
expect "delete it in its own time" 'pod "slow" deleted' delete pod slow --grace-period=1
expect "a pod to kill" 'created' run quick --image=nginx
expect "kill it" '(?s)Warning: Immediate deletion does not wait.*pod "quick" force deleted' delete pod quick --force
refuse "no time without force" '--now and --grace-period cannot be specified together' delete pod none --grace-period=0 --now
expect "a deployment to delete" 'created' create deployment gone --image=nginx
expect "it is up" 'successfully rolled out' rollout status deployment/gone --timeout=60s
expect "delete it in the background" 'deployment.apps "gone" deleted' delete deployment gone --cascade=background
TRANSCRIPT= expect "its pods go" '.*' wait pod -l app=gone --for=delete --timeout=60s
refuse "another cascade" 'invalid cascade value \(sideways\)' delete deployment gone --cascade=sideways
refuse "raw" 'NotFound|not found' delete --raw /api/v1/namespaces/default/configmaps/none
