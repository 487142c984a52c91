# events: the command, and where else they show.

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
expect "events" 'LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n(.*\n)*\S+ \(x3 over \S+\) +Warning +WarningReason +Pod/talked +a message' events
expect "events of one object" 'Normal +NormalReason +Pod/talked +a message' events --for pod/talked
expect "events of a type" '^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n\S+ .*Warning +WarningReason +Pod/talked +a message\n?$' events --for pod/talked --types=Warning
expect "no events" 'No events found' events --for pod/none
expect "events of all namespaces" 'NAMESPACE +LAST SEEN +TYPE +REASON' events -A
expect "get events" 'LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n(.*\n)*\S+ +Warning +WarningReason +pod/talked +a message' get events
expect "get events, wide" 'LAST SEEN +TYPE +REASON +OBJECT +SUBOBJECT +SOURCE +MESSAGE +FIRST SEEN +COUNT +NAME\n(.*\n)*\S+ +Warning +WarningReason +pod/talked +tester, here +a message +\S+ +3 +talked-warning' get events -o wide
expect "by field" 'talked-warning' get events --field-selector=involvedObject.name=talked,type=Warning,reason=WarningReason -o name
expect "as the newer kind" 'reportingController|deprecatedSource' get events.events.k8s.io talked-normal -o yaml
expect "describe shows them" 'Events:\n +Type +Reason +Age +From +Message\n(.*\n)* +Warning +WarningReason +\S+ \(x3 over \S+\) +tester +a message' describe pod talked
expect "clean up" 'deleted' delete event talked-normal talked-warning
expect "the pod" 'deleted' delete pod talked
