# logs, exec, attach, cp, port-forward: the server's errors without a kubelet. Both clusters have simulated nodes.

expect "a pod to ask" 'created' run asked --image=nginx
expect "it runs" 'condition met' wait pod/asked --for=condition=Ready --timeout=60s
# Addresses of simulated nodes are unreachable, with slow and machine-dependent errors. This address refuses connections.
node=$(k get pod asked -o 'jsonpath={.spec.nodeName}')
addresses=$(k get node "$node" -o 'jsonpath={.status.addresses}')
expect "its node refuses" 'patched' patch node "$node" --subresource=status --type=merge \
  -p '{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}'
unreachable='dial tcp 127.0.0.1:1: connect: connection refused|this server does not connect to kubelets'
refuse "logs" "$unreachable" logs asked
refuse "logs of before" "$unreachable" logs asked -p
refuse "the last logs" "$unreachable" logs asked --tail=1
refuse "logs of no container" 'container none is not valid for pod asked' logs asked -c none
refuse "logs of nothing" 'pods "none" not found' logs none
expect "logs by a label of nothing" 'No resources found in default namespace' logs -l app=none
refuse "exec" "$unreachable" exec asked -- true
refuse "exec in no container" 'container none is not valid for pod asked|container not found' exec asked -c none -- true
refuse "exec of nothing" 'pods "none" not found' exec none -- true
refuse "exec without a command" 'you must specify at least one command for the container' exec asked
refuse "attach" "$unreachable" attach asked
refuse "cp" "$unreachable" cp "$work/app.yaml" asked:/tmp/x
refuse "cp of nothing" "error: .*doesn't exist in local filesystem" cp "$work/none" asked:/tmp/x
refuse "port-forward" "$unreachable" port-forward pod/asked :80
refuse "port-forward to nothing" 'pods "none" not found' port-forward pod/none :80
refuse "port-forward to no port" 'does not have a named port|Service web does not have a service port' port-forward service/web :nonsense
refuse "debug a node that is not there" 'nodes "none" not found' debug node/none --image=busybox
expect "its node is as it was" 'patched' patch node "$node" --subresource=status --type=merge -p "{\"status\":{\"addresses\":$addresses,\"daemonEndpoints\":null}}"
expect "delete the pod" 'deleted' delete pod asked --now
