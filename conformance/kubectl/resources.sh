# api-resources, api-versions, version, cluster-info, config.

expect "api-resources, wide" 'pods +po +v1 +true +Pod +create,delete,deletecollection,get,list,patch,update,watch +all' api-resources -o wide
expect "api-resources by kind" '^NAME(.*\n)*apiservices(.*\n)*configmaps' api-resources --sort-by=kind
expect "api-resources of a category" 'deployments.apps\n(.*\n)*statefulsets.apps' api-resources --categories=all -o name
expect "api-resources without a head" '^bindings +v1 +true +Binding' api-resources --no-headers --api-group=''
expect "api-resources of the cluster" 'namespaces +ns +v1 +false +Namespace' api-resources --namespaced=false
expect "api-resources, remembered" 'configmaps +cm +v1 +true +ConfigMap' api-resources --cached --api-group=''
expect "api-resources of nothing" '^\n?$' api-resources --api-group=none -o name
refuse "api-resources by nonsense" '\-\-sort-by accepts only name or kind' api-resources --sort-by=age
expect "api-versions, all" '^admissionregistration.k8s.io/v1\n(.*\n)*storage.k8s.io/v1\nv1\n?$' api-versions
expect "the version of the client" '^Client Version: v1' version --client
TRANSCRIPT= expect "the version as data" '"serverVersion": \{\n(.*\n)* +"gitVersion": "v1\.3' version -o json
expect "where the control plane is" 'Kubernetes control plane.* is running at' cluster-info
expect "cluster-info dump" '(?s)"kind": "NodeList".*"kind": "EventList".*"kind": "PodList"' cluster-info dump --namespaces=kube-public
TRANSCRIPT= expect "the configuration" 'apiVersion: v1\nclusters:\n- cluster:\n(.*\n)*current-context: ' config view
expect "of the present context" '^https://127' config view --minify -o 'jsonpath={.clusters[0].cluster.server}'
TRANSCRIPT= expect "secrets are not shown" 'token: REDACTED' config view
expect "the health" '^ok' get --raw /readyz
expect "the health in detail" '\[\+\]ping ok\n(.*\n)*readyz check passed' get --raw '/readyz?verbose'
