# get: every output format and selection, with a deployment `web` of three replicas and its dependents.

expect "a deployment, whole" '(?s)generation: \d+\n.*\nstatus:\n  availableReplicas: 3\n.*  terminatingReplicas: 0\n' get deployment web -o yaml
expect "its replica sets, whole" '(?s)kind: ReplicaSet\n.*ownerReferences:\n' get rs -l app=web --sort-by='{.metadata.annotations.deployment\.kubernetes\.io/revision}' -o yaml
pod=$(k get pods -l app=web --sort-by=.metadata.name -o 'jsonpath={.items[0].metadata.name}')
expect "a pod, whole" '(?s)kind: Pod\n.*    - mountPath: /var/run/secrets/kubernetes.io/serviceaccount\n.*  serviceAccountName: default\n.*status:\n.*  phase: Running\n' get pod "$pod" -o yaml
expect "a service, whole" 'kind: Service\n(.*\n)*  clusterIP: 10' get service web -o yaml
expect "its endpoints" 'web +10\.\d+\.\d+\.\d+:8080,10\.\d+\.\d+\.\d+:8080,10\.\d+\.\d+\.\d+:8080 ' get endpoints web
expect "its slice" 'NAME +ADDRESSTYPE +PORTS +ENDPOINTS +AGE\nweb-\w+ +IPv4 +8080 +10\.\d+\.\d+\.\d+,10\.\d+\.\d+\.\d+,10\.\d+\.\d+\.\d+ ' get endpointslices -l kubernetes.io/service-name=web
TRANSCRIPT= expect "its slice, whole" '(?s)addressType: IPv4\n.*  endpoints:\n(.*  - addresses:\n){3}' get endpointslices -l kubernetes.io/service-name=web -o yaml
expect "what its slice holds" '"targetRef": \{\n +"kind": "Pod"' get endpointslices -l kubernetes.io/service-name=web -o 'jsonpath-as-json={.items[*].endpoints}'
expect "whose it is" '"endpointslice-controller.k8s.io"' get endpointslices -l kubernetes.io/service-name=web -o 'jsonpath-as-json={.items[*].metadata.labels}'
TRANSCRIPT= expect "the endpoints of the server" 'kubernetes +127\.0\.0\.1:\d+|kubernetes +\S+:\d+ ' get endpoints kubernetes
expect "the default account" 'apiVersion: v1\nkind: ServiceAccount\n' get serviceaccount default -o yaml
expect "the authority" 'kube-root-ca.crt +1 ' get configmap kube-root-ca.crt
expect "without a head" '^web +3/3 +3 +3 +\S+\n?$' get deployment web --no-headers
expect "with kinds" '^NAME +READY.*\ndeployment.apps/web +3/3' get deployment web --show-kind
expect "with labels" 'LABELS\nweb +3/3 +3 +3 +\S+ +app=web' get deployment web --show-labels
expect "a column of a label" 'APP\nweb +3/3 +3 +3 +\S+ +web' get deployment web -L app
expect "two kinds" 'deployment.apps/web +3/3(.*\n)*service/web ' get deployments,services -l app!=none
expect "by path" 'deployment.apps/web' get deployment/web service/kubernetes -o name
expect "a template" '^web 3' get deployment web -o 'go-template={{.metadata.name}} {{.spec.replicas}}'
expect "jsonpath as json" '^\[\n +3\n\]' get deployment web -o 'jsonpath-as-json={.spec.replicas}'
printf 'NAME          IMAGES\n.metadata.name .spec.template.spec.containers[*].image\n' >"$work/columns"
expect "columns from a file" '^NAME +IMAGES\nweb +nginx:1.25' get deployment web -o "custom-columns-file=$work/columns"
expect "page by page" 'default +Active(.*\n)*kube-system +Active' get namespaces --chunk-size=1
expect "sorted by a field" 'default\n(.*\n)*namespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system' get namespaces --sort-by=.metadata.name -o name
expect "one field" '^namespace/kube-public' get namespaces --field-selector=metadata.name=kube-public -o name
expect "not one field" '^namespace/default\n?$' get namespaces --field-selector='metadata.name!=kube-public,metadata.name!=kube-system,metadata.name!=kube-node-lease' -o name
TRANSCRIPT= expect "raw" '"kind":"NamespaceList","apiVersion":"v1","metadata":\{' get --raw '/api/v1/namespaces?limit=1'
expect "raw, discovery" '"kind":"APIResourceList"' get --raw /apis/apps/v1
expect "of files" 'configmap/settings\nservice/web' get -f "$work/app.yaml" -o name
expect "nothing is no failure" '^\n?$' get configmap none --ignore-not-found
expect "no such label" 'No resources found in default namespace' get pods -l no=such
expect "nowhere" 'No resources found' get pods -A -l no=such
expect "a table of the client's own" '^NAME +AGE\nweb ' get deployment web --server-print=false
expect "the status of it" '^NAME +READY' get deployment web --subresource=status
expect "the scale of it" 'kind: Scale\n(.*\n)*spec:\n  replicas: 3\nstatus:\n  replicas: 3\n  selector: app=web' get deployment web --subresource=scale -o yaml
expect "kyaml" '---\n\{\n  apiVersion: "v1",|apiVersion: v1' get configmap settings -o "$(k get --help | grep -qi kyaml && echo kyaml || echo yaml)"
expect "watched events" '^EVENT +NAME +DATA +AGE\nADDED +settings +\d' get configmap settings --output-watch-events --watch --request-timeout=2s
TRANSCRIPT= expect "componentstatuses" 'etcd-0' get componentstatuses # in no order
expect "the columns of leases" 'NAME +HOLDER +AGE\nnode-0 +node-0' get leases -n kube-node-lease
expect "the columns of events" 'LAST SEEN|No resources found' get events -n kube-public
expect "services of addresses" 'NAME +PARENTREF' get ipaddresses
expect "ranges of addresses" 'NAME +CIDRS +AGE\nkubernetes +10.0.0.0/24' get servicecidrs
expect "priority classes" 'system-cluster-critical +2000000000 +false' get priorityclasses
expect "priorities and fairness" 'catch-all +catch-all +10000' get flowschemas
expect "registered groups" 'v1.apps +Local +True' get apiservices
refuse "a bad jsonpath" 'error parsing jsonpath' get pods -o 'jsonpath={.items[}'
refuse "a bad output" 'unable to match a printer suitable for the output format "nonsense"' get pods -o nonsense
refuse "two ways to name" 'there is no need to specify a resource type as a separate argument when passing arguments in resource/name form|error' get pods pod/a
