# Errors of kubectl.

refuse "not found" '^Error from server \(NotFound\): pods "none" not found\n?$' get pod none
refuse "two not found" 'Error from server \(NotFound\): pods "one" not found\nError from server \(NotFound\): pods "two" not found' get pods one two
refuse "exists" '^error: failed to create configmap: configmaps "settings" already exists\n?$' create configmap settings
refuse "exists, from a file" 'Error from server \(AlreadyExists\): error when creating ".*": configmaps "settings" already exists' create -f - < <(k create configmap settings --dry-run=client -o yaml)
refuse "an unknown kind" 'resource mapping not found for name: "x" namespace: "" from "STDIN": no matches for kind "Nope" in version "v1"\nensure CRDs are installed first' create -f - < <(printf 'apiVersion: v1\nkind: Nope\nmetadata: {name: x}\n')
refuse "no kind" 'error validating data: kind not set' create -f - < <(printf 'apiVersion: v1\nmetadata: {name: x}\n')
refuse "no yaml" 'error: error parsing STDIN: error converting YAML to JSON' create -f - < <(printf 'a: b: c\n')
refuse "no name" 'error: error when retrieving current configuration of:|resource name may not be empty' apply -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n')
refuse "a bad name" 'The ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of' create -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad_Name}\n')
refuse "a wrong type" 'Error from server \(BadRequest\): error when creating "STDIN": ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string' create -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 1}\n')
refuse "unknown fields" 'Error from server \(BadRequest\): error when creating "STDIN": ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dat", unknown field "metadata.nam"' create -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, nam: y}\ndat: {a: b}\n')
expect "unknown fields as warnings" 'Warning: unknown field "dat"\nconfigmap/x created \(server dry run\)' create --validate=warn --dry-run=server -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndat: {a: b}\n')
expect "unknown fields ignored" '^configmap/x created \(server dry run\)' create --validate=ignore --dry-run=server -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndat: {a: b}\n')
refuse "several reasons" 'The Deployment "bad" is invalid: ?\n\* spec.template.metadata.labels: Invalid value: .*`selector` does not match template `labels`\n\* spec.template.spec.containers\[0\].name: Invalid value: "C"' create -f - < <(sed 's/replica:/replicas:/; s/matchLabels: {a: b}/matchLabels: {a: c}/; s/name: c,/name: C,/' "$work/bad.yaml")
refuse "an immutable field" 'The Service "kubernetes" is invalid: spec.clusterIPs\[0\]: Invalid value: \["10.0.0.77"\]: may not change once set|spec.clusterIPs\[0\]: Invalid value: .*may not change once set' patch service kubernetes --type=merge -p '{"spec":{"clusterIP":"10.0.0.77","clusterIPs":["10.0.0.77"]}}'
refuse "a bad label" 'The ConfigMap "settings" is invalid: metadata.labels: Invalid value: "bad value"|error: invalid label value: "x=bad value"' label configmap settings 'x=bad value'
refuse "a bad selector" 'unable to parse requirement' get pods -l 'a in'
refuse "a bad field selector" 'Error from server \(BadRequest\): Unable to find "/v1, Resource=pods" that match label selector "", field selector "spec.nothing=1": field label not supported: spec.nothing' get pods --field-selector=spec.nothing=1
refuse "a bad patch" 'error: unable to parse "\{": yaml|error parsing|unexpected' patch configmap settings -p '{'
refuse "a patch of a wrong type" 'The request is invalid: patch: Invalid value: "map\[data:map\[a:1\]\]": cannot convert int64 to string' patch configmap settings -p '{"data":{"a":1}}'
refuse "a patch that tests" 'testing value /data/colour failed|the server rejected our request' patch configmap settings --type=json -p '[{"op":"test","path":"/data/colour","value":"none"}]'
refuse "another namespace" 'the namespace from the provided object "here" does not match the namespace "there"' create -n there -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: here}\n')
refuse "delete nothing" 'Error from server \(NotFound\): configmaps "none" not found' delete configmap none
refuse "negative replicas" 'error: The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0' scale deployment none --replicas=-1
refuse "an unknown path" 'Error from server \(NotFound\): the server could not find the requested resource' get --raw /apis/nonsense
refuse "a namespace that is not there" 'Error from server \(NotFound\): error when creating "STDIN": namespaces "nowhere" not found' create -f - < <(printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n')
refuse "no metrics" 'error: Metrics API not available' top nodes
refuse "no server" 'The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port\?' --server https://127.0.0.1:1 get pods
refuse "no logs of what is not there" 'pods "none" not found' logs none
refuse "no such container" 'container nothing is not valid for pod' logs "$(k run logged --image=nginx -o name)" -c nothing
expect "delete the pod" 'deleted' delete pod logged --now
refuse "a wait that is too short" 'error: timed out waiting for the condition on configmaps/settings' wait configmap/settings --for=jsonpath='{.data.none}'=1 --timeout=1s
refuse "wait for nothing" 'no matching resources found' wait pod -l app=none --for=condition=Ready --timeout=1s
