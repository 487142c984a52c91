# cordon, drain, uncordon, taint: on simulated nodes.

node=$(k get nodes -o 'jsonpath={.items[0].metadata.name}')
expect "cordon" "node/$node cordoned" cordon "$node"
expect "cordon again" "node/$node already cordoned" cordon "$node"
expect "it shows" "$node +Ready,SchedulingDisabled " get node "$node"
expect "create" 'created' create deployment crew --image=nginx --replicas=4
expect "it rolls out elsewhere" 'successfully rolled out' rollout status deployment/crew --timeout=60s
expect "nothing is scheduled there" 'No resources found' get pods -l app=crew --field-selector="spec.nodeName=$node"
expect "uncordon" "node/$node uncordoned" uncordon "$node"
expect "uncordon again" "node/$node already uncordoned" uncordon "$node"

busy=$(k get pods -l app=crew -o 'jsonpath={.items[0].spec.nodeName}')
expect "run a pod without a controller" 'created' run alone --image=nginx --overrides="{\"spec\":{\"nodeName\":\"$busy\"}}"
expect "it runs" 'condition met' wait pod/alone --for=condition=Ready --timeout=60s
refuse "drain spares what nobody would bring back" 'cannot delete.*(declare no controller|no controller).*default/alone' drain "$busy" --timeout=60s
TRANSCRIPT= expect "drain without effect" "node/$busy drained \(server dry run\)" drain "$busy" --force --dry-run=server
TRANSCRIPT= expect "drain" "evicting pod default/crew-(.*\n)*pod/\S+ evicted\n(.*\n)*node/$busy drained" drain "$busy" --force --timeout=60s
expect "nothing is left on it" 'No resources found' get pods -A --field-selector="spec.nodeName=$busy"
expect "its pods are back elsewhere" 'successfully rolled out' rollout status deployment/crew --timeout=60s
expect "drain again" "node/$busy drained" drain "$busy" --timeout=60s
expect "drain by label" 'drained' drain -l "kubernetes.io/hostname=$busy" --timeout=60s
expect "uncordon" "node/$busy uncordoned" uncordon "$busy"

expect "taint" "node/$node tainted" taint nodes "$node" key=value:NoSchedule
expect "it shows" 'Taints: +key=value:NoSchedule' describe node "$node"
refuse "taint again" 'already has key taint\(s\) with same effect\(s\)' taint nodes "$node" key=other:NoSchedule
expect "overwrite" "node/$node modified" taint nodes "$node" key=other:NoSchedule --overwrite
expect "untaint" "node/$node untainted" taint nodes "$node" key-
expect "label a node" "node/$node labeled" label node "$node" node-role.kubernetes.io/worker=
expect "it is a role" "$node +Ready +worker " get node "$node"
expect "unlabel" "node/$node unlabeled" label node "$node" node-role.kubernetes.io/worker-

if needs poddisruptionbudgets.policy "drain within a budget"; then
  expect "a budget" 'created' create poddisruptionbudget crew --selector=app=crew --max-unavailable=0
  # Sets the status without a disruption controller; with one, the values are equal.
  k patch pdb crew --subresource=status --type=merge \
    -p '{"status":{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":4,"desiredHealthy":4,"expectedPods":4}}' >/dev/null
  expect "it is counted" 'condition met' wait pdb/crew --for=jsonpath='{.status.expectedPods}'=4 --timeout=30s
  busy=$(k get pods -l app=crew -o 'jsonpath={.items[0].spec.nodeName}')
  TRANSCRIPT= refuse "drain against a budget" "Cannot evict pod as it would violate the pod's disruption budget." drain "$busy" --timeout=3s
  expect "uncordon" 'uncordoned' uncordon "$busy"
  expect "delete the budget" 'deleted' delete pdb crew
fi
expect "delete it" 'deleted' delete deployment crew
