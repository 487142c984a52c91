# events: the command, and other commands that print events.

expect "a pod to talk about" 'created' run talked --image=nginx
uid=$(k get pod talked -o 'jsonpath={.metadata.uid}')
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
for kind in Normal Warning; do
  cat <<YAML
apiVersion: v1
kind: Event
metadata: {name: talked-${kind,,}}
involvedObject: {apiVersion: v1, kind: Pod, namespace: default, name: talked, uid: $uid}
reason: ${kind}Reason
message: a message
type: $kind
count: 3
firstTimestamp: "$now"
lastTimestamp: "$now"
source: {component: tester, host: here}
---
YAML
done >"$work/events.yaml"
expect "create events" 'event/talked-normal created\nevent/talked-warning created' create -f "$work/events.yaml"
TRANSCRIPT= expect "events" 'LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n(.*\n)*\S+ \(x3 over \S+\) +Warning +WarningReason +Pod/talked +a message' events
TRANSCRIPT= expect "events of one object" 'Normal +NormalReason +Pod/talked +a message' events --for pod/talked
expect "events of a type" '^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n\S+ .*Warning +WarningReason +Pod/talked +a message\n?$' events --for pod/talked --types=Warning
expect "no events" 'No events found' events --for pod/none
TRANSCRIPT= expect "events of all namespaces" 'NAMESPACE +LAST SEEN +TYPE +REASON' events -A
TRANSCRIPT= expect "get events" 'LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n(.*\n)*\S+ +Warning +WarningReason +pod/talked +a message' get events
TRANSCRIPT= expect "get events, wide" 'LAST SEEN +TYPE +REASON +OBJECT +SUBOBJECT +SOURCE +MESSAGE +FIRST SEEN +COUNT +NAME\n(.*\n)*\S+ +Warning +WarningReason +pod/talked +tester, here +a message +\S+ +3 +talked-warning' get events -o wide
expect "by field" 'talked-warning' get events --field-selector=involvedObject.name=talked,type=Warning,reason=WarningReason -o name
expect "as the newer kind" 'reportingController|deprecatedSource' get events.events.k8s.io talked-normal -o yaml
TRANSCRIPT= expect "describe shows them" 'Events:\n +Type +Reason +Age +From +Message\n(.*\n)* +Warning +WarningReason +\S+ \(x3 over \S+\) +tester +a message' describe pod talked
expect "get events of one object" '(?s)NormalReason.*WarningReason' get events --field-selector=involvedObject.name=talked,source=tester
expect "sorted" '(?s)NormalReason.*WarningReason' get events --field-selector=involvedObject.name=talked,source=tester --sort-by=.metadata.name
expect "as lines" 'talked-normal +Normal +NormalReason\ntalked-warning +Warning +WarningReason' get events --field-selector=involvedObject.name=talked,source=tester -o 'custom-columns=N:.metadata.name,T:.type,R:.reason'
: >"$work/events.log"
timeout 20 "$KUBECTL" events --for pod/talked --types=Warning --watch >>"$work/events.log" 2>&1 &
watcher=$!
for _ in $(seq 50); do grep -q WarningReason "$work/events.log" && break; sleep 0.1; done
k annotate event talked-warning again=yes >/dev/null
for _ in $(seq 50); do [ "$(grep -c WarningReason "$work/events.log")" -ge 2 ] && break; sleep 0.1; done
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
judge "events, watched" '(?s)(Warning +WarningReason +Pod/talked +a message.*){2}' "$(cat "$work/events.log")" ok "events --watch"
expect "clean up" 'deleted' delete event talked-normal talked-warning
expect "the pod" 'deleted' delete pod talked

# Events of the controllers.
expect "a deployment to tell of" 'created' create deployment told --image=nginx
expect "it rolls out" 'successfully rolled out' rollout status deployment/told --timeout=60s
set=$(k get rs -l app=told -o 'jsonpath={.items[0].metadata.name}')
pod=$(k get pods -l app=told -o 'jsonpath={.items[0].metadata.name}')
settles 'Started' events --for "pod/$pod"
settles 'ScalingReplicaSet' events --for deployment/told
settles 'SuccessfulCreate' events --for "rs/$set"
expect "events of a deployment" "Normal +ScalingReplicaSet +Deployment/told +Scaled up replica set $set from 0 to 1" events --for deployment/told
expect "events of a replica set" "Normal +SuccessfulCreate +ReplicaSet/$set +Created pod: $pod" events --for "rs/$set"
expect "events of a pod" "Normal +Scheduled +Pod/$pod +Successfully assigned default/$pod to node-\d\n\S+ +Normal +Pulled +(.*\n)+\S+ +Normal +Created +(.*\n)+\S+ +Normal +Started +" events --for "pod/$pod"
expect "described with a deployment" 'Events:\n +Type +Reason +Age +From +Message\n.*\n +Normal +ScalingReplicaSet +\S+ +deployment-controller +Scaled up replica set' describe deployment told
expect "described with a replica set" 'Normal +SuccessfulCreate +\S+ +replicaset-controller +Created pod: ' describe rs "$set"
expect "scale it to nothing" 'scaled' scale deployment told --replicas=0
settles 'SuccessfulDelete' events --for "rs/$set"
settles 'Scaled down' events --for deployment/told
expect "events of scaling down" "Scaled down replica set $set from 1 to 0" events --for deployment/told
expect "events of a deletion" "Normal +SuccessfulDelete +ReplicaSet/$set +Deleted pod: $pod" events --for "rs/$set"
expect "a pod that fits nowhere" 'created' run lost --image=nginx --overrides='{"spec":{"nodeSelector":{"none":"such"}}}'
settles 'FailedScheduling' events --for pod/lost
expect "is told of" 'Warning +FailedScheduling +Pod/lost +0/3 nodes are available: 3 node\(s\) didn.t match Pod.s node affinity/selector' events --for pod/lost --types=Warning
expect "delete the lost" 'deleted' delete pod lost
expect "and the told, with its pods" 'deleted' delete deployment told --cascade=foreground
settles 'RegisteredNode' events --for node/node-0
expect "a node is told of" 'Normal +RegisteredNode +\S+ +node-controller +Node node-0 event: Registered Node node-0 in Controller' describe node node-0
