# wait, label, annotate, scale, patch of subresources.

(sleep 1; k create configmap late --from-literal=a=b >/dev/null) &
expect "wait for a creation" 'configmap/late condition met' wait configmap/late --for=create --timeout=20s
wait $!
expect "wait for a value" 'configmap/late condition met' wait configmap/late --for=jsonpath='{.data.a}'=b --timeout=5s
expect "wait for any value" 'configmap/late condition met' wait configmap/late --for=jsonpath='{.data.a}' --timeout=5s
expect "wait for all" 'node/node-0 condition met\nnode/node-1 condition met\nnode/node-2 condition met' wait nodes --all --for=condition=Ready --timeout=5s
expect "wait for what is not" 'deployment.apps/web condition met' wait deployment/web --for=condition=Progressing=true --timeout=5s
refuse "wait in vain" 'timed out waiting for the condition on deployments/web' wait deployment/web --for=condition=Available=false --timeout=1s
refuse "wait for what is not there" 'configmaps "none" not found' wait configmap/none --for=condition=x --timeout=1s
expect "wait for the deletion of nothing" '^\n?$' wait configmap/none --for=delete --timeout=1s
refuse "wait for nonsense" 'unrecognized condition: "nonsense"' wait configmap/late --for=nonsense
(sleep 1; k delete configmap late >/dev/null) &
expect "wait for a deletion that comes" 'configmap/late condition met' wait configmap/late --for=delete --timeout=20s
wait $!

expect "label it" 'configmap/settings labeled' label configmap settings a=b
expect "label it again" 'configmap/settings not labeled' label configmap settings a=b
refuse "label it otherwise" "error: 'a' already has a value \(b\), and --overwrite is false" label configmap settings a=c
refuse "label an old version" 'the object has been modified|Operation cannot be fulfilled' label configmap settings a=c --overwrite --resource-version=1
expect "label a file" 'configmap/settings labeled\nservice/web labeled' label -f "$work/app.yaml" x=y
expect "by label" 'settings' get configmaps -l 'a in (b,c),x' -o name
expect "unlabel all" 'configmap/settings unlabeled' label configmap settings a- x-
expect "unlabel what is not there" 'label "a" not found\.\nconfigmap/settings (not )?labeled' label configmap settings a-
expect "unlabel the service" 'service/web unlabeled' label service web x-
refuse "no label" 'at least one label update is required' label configmap settings
expect "annotate it" 'configmap/settings annotated' annotate configmap settings remark=one
refuse "annotate it otherwise" "error: --overwrite is false but found the following declared annotation\(s\): 'remark' already has a value" annotate configmap settings remark=two
expect "annotate it over" 'configmap/settings annotated' annotate configmap settings remark=two --overwrite
TRANSCRIPT= expect "list annotations" 'remark=two' annotate configmap settings --list
expect "take it off" 'configmap/settings annotated' annotate configmap settings remark-

expect "scale two" 'deployment.apps/web scaled' scale deployment/web --replicas=2 --current-replicas=3
expect "it is two" 'condition met' wait deployment/web --for=jsonpath='{.status.readyReplicas}'=2 --timeout=60s
TRANSCRIPT= refuse "scale an old version" 'xpected resource version to be 1' scale deployment/web --replicas=1 --resource-version=1
refuse "scale what has no scale" 'the server could not find the requested resource|no kind .Scale. is registered|could not find' scale configmap/settings --replicas=1
expect "scale without effect" 'deployment.apps/web scaled \(server dry run\)' scale deployment/web --replicas=9 --dry-run=server
expect "scale a replica set" 'replicaset.apps/\S+ scaled' scale rs "$(k get rs -l app=web -o 'jsonpath={.items[?(@.spec.replicas==2)].metadata.name}')" --replicas=2
expect "patch the scale" 'scale.autoscaling/web patched' patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":3}}'
expect "it is three" 'condition met' wait deployment/web --for=jsonpath='{.status.readyReplicas}'=3 --timeout=60s
expect "patch the status" 'node/node-0 patched' patch node node-0 --subresource=status -p '{"status":{"capacity":{"example.org/gpu":"2"}}}'
expect "it has it" '^2' get node node-0 -o 'jsonpath={.status.capacity.example\.org/gpu}'
expect "take it back" 'node/node-0 patched' patch node node-0 --subresource=status --type=json -p '[{"op":"remove","path":"/status/capacity/example.org~1gpu"}]'
refuse "patch a part that is not there" 'the server could not find the requested resource|invalid subresource' patch configmap settings --subresource=status -p '{"data":{}}'
refuse "patch in no way" 'type must be one of|--type' patch configmap settings --type=none -p '{}'
refuse "patch with nothing" 'must specify --patch or --patch-file' patch configmap settings
