#!/usr/bin/env bash
# Tests of unmodified kubectl with a control plane, by its output.
#
#   conformance/kubectl.sh WINDLASS      starts `WINDLASS up`, runs the checks, stops it
#   conformance/kubectl.sh               runs them with $KUBECONFIG, a cluster with controllers and nodes
#
# $KUBECTL is the kubectl to use; defaults to `kubectl`. The checks of single commands are in conformance/kubectl/.
# $TRANSCRIPT is a file for the output, without names and times: `cargo xtask kubectl` compares two of them. The output of
# a check after `TRANSCRIPT=` may differ between runs, and is not written.
set -uo pipefail
parts=$(cd "$(dirname "$0")/kubectl" && pwd)

KUBECTL=${KUBECTL:-kubectl}
work=$(mktemp -d)
failed=0
passed=0
left=0
resources=
up=

finish() {
  if [ -n "$up" ]; then
    kill -TERM "$up" 2>/dev/null
    wait "$up" 2>/dev/null
  fi
  rm -rf "$work"
}
trap finish EXIT

# The discovery cache must not be used with another server.
export HOME="$work"

if [ $# -gt 0 ]; then
  "$1" up --bind 127.0.0.1:0 --kubeconfig "$work/kubeconfig" >"$work/up.log" 2>&1 &
  up=$!
  for _ in $(seq 100); do
    grep -q '^ready' "$work/up.log" && break
    kill -0 "$up" 2>/dev/null || break
    sleep 0.1
  done
  if ! grep -q '^ready' "$work/up.log"; then
    echo "windlass up is not ready:" >&2
    cat "$work/up.log" >&2
    exit 1
  fi
  export KUBECONFIG="$work/kubeconfig"
fi

k() { timeout 60 "$KUBECTL" "$@"; }

# expect TITLE REGEX ARGUMENTS...: kubectl succeeds, and its whole output matches.
expect() {
  local title=$1 pattern=$2 output status
  shift 2
  output=$(k "$@" 2>&1)
  status=$?
  judge "$title" "$pattern" "$output" $([ $status -eq 0 ] && echo ok || echo "exit $status") "$*"
}

# refuse TITLE REGEX ARGUMENTS...: kubectl fails with this message.
refuse() {
  local title=$1 pattern=$2 output status
  shift 2
  output=$(k "$@" 2>&1)
  status=$?
  judge "$title" "$pattern" "$output" $([ $status -ne 0 ] && echo ok || echo "success") "$*"
}

# neutral: removes text that differs between runs: names, times, addresses, versions, column widths.
neutral() {
  sed -E -e "s#$work#WORK#g" \
    -e 's/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/UID/g' \
    -e 's/20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/TIME/g' \
    -e 's/20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:.]+ [+-][0-9]{4}/TIME/g' \
    -e 's/[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} 20[0-9]{2} [0-9:]{8} [+-][0-9]{4}/TIME/g' \
    -e 's/eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/TOKEN/g' \
    -e 's/127\.0\.0\.1:[0-9]+/SERVER/g' -e 's/\b10\.[0-9]+\.[0-9]+\.[0-9]+/ADDRESS/g' -e 's/\b172\.18\.[0-9]+\.[0-9]+/HOST/g' \
    -e 's/\/(LIVE|MERGED)-[0-9]+/\/\1/g' -e 's/kubectl-edit-[0-9]+/kubectl-edit/g' \
    -e 's/-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b/-HASH/g' -e 's/\bnode-[0-9]\b/node-N/g' \
    -e 's/pod-template-hash(=|: )[a-z0-9]+/pod-template-hash\1HASH/g' -e 's/\.[0-9a-f]{16}\b/.HASH/g' \
    -e 's/\b([0-9]+[dhms]){1,2}\b/AGE/g' -e 's/:3[0-9]{4}\b/:PORT/g' -e 's/\b3[0-9]{4}\/(TCP|UDP)/PORT\/\1/g' \
    -e 's/([rR]esource ?[vV]ersion"?: +)"?[0-9]+"?/\1VERSION/g' -e 's/\+windlass\.[0-9.]+//g' \
    -e 's/[ \t]+/ /g; s/ $//; s/-{4,}/----/g' -e '/^Waiting for /d; /^[EIW][0-9]{4} /d'
}

judge() {
  local title=$1 pattern=$2 output=$3 outcome=$4 command=$5
  if [ -n "${TRANSCRIPT:-}" ]; then printf '=== %s\n%s\n' "$title" "$(neutral <<<"$output")" >>"$TRANSCRIPT"; fi
  if [ "$outcome" = ok ] && grep -Pzoq -- "$pattern" <<<"$output"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED %s\n  kubectl %s\n  outcome: %s\n  expected: %s\n  printed:\n%s\n' \
      "$title" "$command" "$outcome" "$pattern" "$(sed 's/^/    /' <<<"$output")"
  fi
}

manifest() { cat >"$work/$1"; }

# settles PATTERN ARGUMENTS...: waits until kubectl's output matches, for changes by controllers.
settles() {
  local pattern=$1
  shift
  for _ in $(seq 100); do
    if k "$@" 2>/dev/null | grep -Pzoq -- "$pattern"; then return 0; fi
    sleep 0.1
  done
  failed=$((failed + 1))
  printf 'FAILED to settle\n  kubectl %s\n  expected: %s\n' "$*" "$pattern"
}

# needs RESOURCE WHAT: succeeds if the server serves a resource (in the format of `api-resources -o name`); otherwise prints that WHAT is skipped.
needs() {
  if [ -z "$resources" ]; then resources=$(k api-resources -o name); fi
  if grep -qx "$1" <<<"$resources"; then return 0; fi
  left=$((left + 1))
  echo "left out: $2: $1 is not served"
  return 1
}

# edit SED-SCRIPT: sets the editor of the next commands.
edit() {
  echo "$1" >"$work/edit.sed"
  export KUBE_EDITOR="sed -i -f $work/edit.sed"
}

echo "$(k version 2>/dev/null | tr '\n' ' ')"

# --- discovery
expect "the versions agree" 'Server Version: v1\.3' version
expect "api-versions" 'apps/v1\n(.*\n)*coordination.k8s.io/v1\n(.*\n)*v1' api-versions
expect "api-resources" 'deployments +deploy +apps/v1 +true +Deployment' api-resources
expect "api-resources by group" '^NAME +SHORTNAMES +APIVERSION +NAMESPACED +KIND\n(.*\n)*replicasets +rs +apps/v1 +true +ReplicaSet' api-resources --api-group=apps
expect "api-resources by verb" 'configmaps' api-resources --verbs=list,patch --namespaced=true -o name
expect "cluster-info" 'Kubernetes control plane.* is running at' cluster-info
expect "nodes are ready" 'NAME +STATUS +ROLES +AGE +VERSION\n.* Ready ' get nodes
expect "nodes, wide" 'INTERNAL-IP +EXTERNAL-IP +OS-IMAGE' get nodes -o wide
expect "namespaces" 'default +Active.*\nkube-node-lease +Active.*\nkube-public +Active.*\nkube-system +Active' get namespaces
expect "the kubernetes service" 'kubernetes +ClusterIP +10\.\S+ +<none> +443/TCP' get service kubernetes

# --- create deployment
expect "create deployment" 'deployment.apps/web created' create deployment web --image=nginx:1.25 --replicas=8
refuse "create it again" 'deployments.apps "web" already exists' create deployment web --image=nginx:1.25
expect "rollout status" 'deployment "web" successfully rolled out' rollout status deployment/web --timeout=60s
expect "get deployment" 'NAME +READY +UP-TO-DATE +AVAILABLE +AGE\nweb +8/8 +8 +8 ' get deployment web
expect "get deployment, wide" 'CONTAINERS +IMAGES +SELECTOR\nweb +8/8 +8 +8 +\S+ +nginx +nginx:1.25 +app=web' get deploy web -o wide
expect "eight pods run" '(web-\S+ +1/1 +Running +0 +\S+\n){8}' get pods -l app=web
expect "pods, wide" 'IP +NODE +NOMINATED NODE +READINESS GATES\nweb-\S+ +1/1 +Running +0 +\S+ +\d+\.\S+ +\S+ +<none> +<none>' get pods -o wide
expect "pods of all namespaces" 'NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE\ndefault +web-' get pods -A
expect "pods by field" 'web-' get pods --field-selector=status.phase=Running
expect "no pods by field" 'No resources found in default namespace' get pods --field-selector=status.phase=Failed
expect "pods by label expression" 'web-' get pods -l 'app in (web,none),!absent'
expect "as yaml" '^apiVersion: apps/v1\nkind: Deployment\nmetadata:\n(.*\n)*spec:\n(.*\n)*  replicas: 8\n' get deployment web -o yaml
expect "as json" '"kind": "Deployment"' get deployment web -o json
expect "by jsonpath" '^8\n?$' get deployment web -o 'jsonpath={.status.readyReplicas}'
expect "by name" 'replicaset.apps/web-\w+' get rs -o name
expect "by custom columns" '^NAME +IMAGE\nweb +nginx:1.25' get deploy -o 'custom-columns=NAME:.metadata.name,IMAGE:.spec.template.spec.containers[0].image'
expect "get all" 'pod/web-(.*\n)*service/kubernetes(.*\n)*deployment.apps/web(.*\n)*replicaset.apps/web-' get all
settles 'ScalingReplicaSet' events --for deployment/web
expect "describe deployment" 'Name: +web\nNamespace: +default\n(.*\n)*Replicas: +8 desired \| 8 updated \| 8 total \| 8 available \| 0 unavailable\n(.*\n)*StrategyType: +RollingUpdate\n(.*\n)*NewReplicaSet: +web-\w+ \(8/8 replicas created\)' describe deployment web
pod=$(k get pods -l app=web -o 'jsonpath={.items[0].metadata.name}')
settles 'Started' events --for "pod/$pod"
expect "describe pod" "Name: +$pod\nNamespace: +default\n(.*\n)*Status: +Running\n(.*\n)*Controlled By: +ReplicaSet/web-" describe pod "$pod"
for node in node-0 node-1 node-2; do settles 'RegisteredNode' events --for "node/$node"; done
expect "describe node" 'Name: +\S+\n(.*\n)*Conditions:\n(.*\n)*Non-terminated Pods' describe node

# --- the control loop
expect "delete a pod" "pod \"$pod\" deleted" delete pod "$pod"
settles '^(Running True ){8}$' get pods -l app=web -o 'jsonpath={range .items[*]}{.status.phase} {.status.conditions[?(@.type=="Ready")].status} {end}'
expect "it is replaced" 'deployment "web" successfully rolled out' rollout status deployment/web --timeout=60s
settles ' 8/8 ' get deployment web
expect "there are eight again" 'web +8/8 +8 +8' get deployment web
refuse "the old one is gone" "pods \"$pod\" not found" get pod "$pod"
expect "scale" 'deployment.apps/web scaled' scale deployment web --replicas=3
expect "three are left" 'condition met' wait deployment/web --for=jsonpath='{.status.replicas}'=3 --timeout=60s
refuse "scale under a wrong condition" 'xpected replicas to be 5' scale deployment web --current-replicas=5 --replicas=1

# --- rollouts
expect "set image" 'deployment.apps/web image updated' set image deployment/web nginx=nginx:1.26
expect "the rollout ends" 'successfully rolled out' rollout status deployment/web --timeout=60s
expect "annotate the cause" 'deployment.apps/web annotated' annotate deployment/web kubernetes.io/change-cause='nginx 1.26'
expect "history" 'REVISION +CHANGE-CAUSE\n1 +<none>\n2 +' rollout history deployment/web
expect "history of one revision" 'Image:\s+nginx:1.25' rollout history deployment/web --revision=1
expect "undo" 'deployment.apps/web rolled back' rollout undo deployment/web
expect "undo ends" 'successfully rolled out' rollout status deployment/web --timeout=60s
expect "the image is back" '^nginx:1.25' get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}'
expect "history after undo" '2 +.*\n3 +' rollout history deployment/web
expect "restart" 'deployment.apps/web restarted' rollout restart deployment/web
expect "restart ends" 'successfully rolled out' rollout status deployment/web --timeout=60s
expect "pause" 'deployment.apps/web paused' rollout pause deployment/web
expect "resume" 'deployment.apps/web resumed' rollout resume deployment/web

# --- apply, patch, label, annotate
manifest app.yaml <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  colour: blue
  size: large
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
YAML
expect "apply creates" 'configmap/settings created\nservice/web created' apply -f "$work/app.yaml"
expect "apply again changes nothing" 'configmap/settings unchanged\nservice/web unchanged' apply -f "$work/app.yaml"
sed -i 's/colour: blue/colour: red/; /size: large/d' "$work/app.yaml"
expect "apply changes" 'configmap/settings configured\nservice/web unchanged' apply -f "$work/app.yaml"
expect "apply removed what the file no longer has" '^\{"colour":"red"\}' get configmap settings -o 'jsonpath={.data}'
settles '^(10\.\S+ ){3}$' get endpointslices -l kubernetes.io/service-name=web -o 'jsonpath={range .items[*].endpoints[*]}{.addresses[0]} {end}'
expect "the service has an address" 'web +ClusterIP +10\.\d+\.\d+\.\d+ +<none> +80/TCP' get service web
expect "describe service" 'Selector: +app=web\n(.*\n)*Port: .* 80/TCP\nTargetPort: +8080/TCP' describe service web
expect "merge patch" 'configmap/settings patched' patch configmap settings --type=merge -p '{"data":{"a":"1"}}'
expect "json patch" 'configmap/settings patched' patch configmap settings --type=json -p '[{"op":"replace","path":"/data/a","value":"2"}]'
expect "strategic patch" 'deployment.apps/web patched' patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","env":[{"name":"X","value":"y"}]}]}}}}'
expect "the patch rolls out" 'successfully rolled out' rollout status deployment/web --timeout=60s
expect "the image survived the patch" '^nginx:1.25' get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}'
refuse "a patch that does not fit" 'the server rejected our request due to an error in our request' patch configmap settings --type=json -p '[{"op":"remove","path":"/data/none"}]'
expect "label" 'configmap/settings labeled' label configmap settings tier=back
expect "by the new label" 'settings' get configmap -l tier=back
refuse "a label is not overwritten" "already has a value" label configmap settings tier=front
expect "unlabel" 'configmap/settings unlabeled' label configmap settings tier-
expect "annotate" 'configmap/settings annotated' annotate configmap settings note=x
printf 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: bad}\nspec:\n  replica: 1\n  selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n' >"$work/bad.yaml"
refuse "an unknown field is refused" 'unknown field "spec.replica"' create -f "$work/bad.yaml"
refuse "an invalid object is refused" 'is invalid.*selector.*does not match template' create -f - < <(sed 's/replica:/replicas:/; s/matchLabels: {a: b}/matchLabels: {a: c}/' "$work/bad.yaml")

# --- the current objects
# Waits until the rollouts are complete.
settles '^3 3 0 (Running ){3}$' get deployments,pods -l app=web -o 'jsonpath={.items[0].status.replicas} {.items[0].status.readyReplicas} {.items[0].status.terminatingReplicas} {range .items[1:]}{.status.phase} {end}'
settles '^(10\.\S+ ){3}$' get endpointslices -l kubernetes.io/service-name=web -o 'jsonpath={range .items[*].endpoints[*]}{.addresses[0]} {end}'
settles '^(10\.\S+ ){3}$' get endpoints web -o 'jsonpath={range .subsets[*].addresses[*]}{.ip} {end}'
for part in resources get describe wait kubelet; do
  . "$parts/$part.sh"
done

# --- run, wait, delete
expect "run" 'pod/single created' run single --image=busybox --restart=Never
expect "wait for the pod" 'pod/single condition met' wait pod/single --for=condition=Ready --timeout=60s
expect "watch sees it" 'single +1/1 +Running' get pod single --watch-only=false
: >"$work/watch.log"
k get pods -w >>"$work/watch.log" 2>&1 &
watcher=$!
for _ in $(seq 50); do grep -q '^single' "$work/watch.log" && break; sleep 0.1; done
expect "delete the pod" 'pod "single" deleted' delete pod single
for _ in $(seq 50); do grep -q '^single.*Error' "$work/watch.log" && break; sleep 0.1; done
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
# The number of status updates depends on the kubelet. The pod is killed at the end, so its container fails.
judge "get -w shows the end" '^Running\nTerminating\nError\n?$' "$(awk '$1 == "single" {print $3}' "$work/watch.log" | uniq)" ok "get pods -w"
expect "wait for a deletion" '.*' wait pod/single --for=delete --timeout=30s
expect "orphans survive" 'deployment.apps "web" deleted' delete deployment web --cascade=orphan
expect "their replica set has no owner" '^web-\w+ \n?' get rs -l app=web -o 'jsonpath={range .items[?(@.spec.replicas>0)]}{.metadata.name} {.metadata.ownerReferences}{"\n"}{end}'
expect "delete the replica sets" 'deleted' delete rs -l app=web
TRANSCRIPT= expect "the garbage collector takes the pods" '.*' wait pod -l app=web --for=delete --timeout=60s
expect "nothing is left" 'No resources found' get pods -l app=web
expect "foreground deletion" 'deployment.apps/short created' create deployment short --image=nginx --replicas=2
expect "it is up" 'successfully rolled out' rollout status deployment/short --timeout=60s
expect "it goes with its pods" 'deployment.apps "short" deleted' delete deployment short --cascade=foreground
expect "no pod of it is left" 'No resources found' get pods -l app=short

# --- namespaces
expect "create namespace" 'namespace/team created' create namespace team
settles 'serviceaccount/default' get serviceaccount default -n team -o name
expect "it gets a service account" 'serviceaccount/default' wait serviceaccount/default -n team --for=jsonpath='{.metadata.name}'=default --timeout=30s
expect "create in it" 'configmap/c created' create configmap c -n team --from-literal=a=b
expect "create secret" 'secret/s created' create secret generic s -n team --from-literal=password=x
expect "the secret's table" 's +Opaque +1' get secret s -n team
refuse "an unknown namespace" 'namespaces "nowhere" not found' create configmap c -n nowhere
expect "delete namespace" 'namespace "team" deleted' delete namespace team --timeout=60s
refuse "it is gone" 'namespaces "team" not found' get namespace team
refuse "the default namespace stays" 'this namespace may not be deleted' delete namespace default

# --- custom resources
manifest crd.yaml <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: websites.example.dev
spec:
  group: example.dev
  scope: Namespaced
  names: {plural: websites, singular: website, kind: Website, shortNames: [ws], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns:
    - {name: Domain, type: string, jsonPath: .spec.domain}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [domain]
            properties:
              domain: {type: string}
              replicas: {type: integer, default: 2}
          status:
            type: object
            properties:
              replicas: {type: integer}
YAML
manifest website.yaml <<'YAML'
apiVersion: example.dev/v1
kind: Website
metadata:
  name: blog
spec:
  domain: blog.example.dev
YAML
expect "create a CRD" 'customresourcedefinition.apiextensions.k8s.io/websites.example.dev created' create -f "$work/crd.yaml"
expect "it is established" 'condition met' wait crd/websites.example.dev --for=condition=Established --timeout=30s
settles 'websites' api-resources --api-group=example.dev
expect "it is in api-resources" 'websites +ws +example.dev/v1 +true +Website' api-resources --api-group=example.dev
expect "create a custom object" 'website.example.dev/blog created' create -f "$work/website.yaml"
expect "its columns and defaults" 'NAME +DOMAIN +REPLICAS\nblog +blog.example.dev +2' get websites
expect "by short name" 'blog' get ws
expect "apply to it" 'website.example.dev/blog configured' apply -f - < <(sed 's/blog.example.dev/blog.example.com/' "$work/website.yaml")
expect "scale it" 'website.example.dev/blog scaled' scale website blog --replicas=4
expect "it is scaled" '^4' get website blog -o 'jsonpath={.spec.replicas}'
refuse "a wrong type" 'spec.domain' patch website blog --type=merge -p '{"spec":{"domain":3}}'
refuse "a missing field" 'spec.domain: Required value' create -f - < <(sed '/domain/d; s/^spec:/spec: {}/; s/name: blog/name: other/' "$work/website.yaml")
expect "it is among all" 'website.example.dev/blog' get all
expect "describe it" 'Kind: +Website\n(.*\n)*Spec:\n +Domain: +blog.example.com' describe website blog
expect "delete it" 'website.example.dev "blog" deleted' delete website blog
expect "delete the CRD" 'deleted' delete crd websites.example.dev --timeout=30s
refuse "its kind is gone" "doesn't have a resource type|could not find the requested resource" get websites

# --- command by command
for part in explain change apply set create delete rollout nodes identity accounts events errors; do
  . "$parts/$part.sh"
done

# --- proxy
: >"$work/proxy.log"
timeout 60 "$KUBECTL" proxy --port=0 >>"$work/proxy.log" 2>&1 &
proxy=$!
for _ in $(seq 50); do grep -q 'Starting to serve' "$work/proxy.log" && break; sleep 0.1; done
address=$(sed -n 's/^Starting to serve on //p' "$work/proxy.log")
if command -v curl >/dev/null; then
  judge "proxy" '"kind": ?"NamespaceList"' "$(curl -s "http://$address/api/v1/namespaces")" ok "proxy"
fi
kill "$proxy" 2>/dev/null
wait "$proxy" 2>/dev/null

# --- errors
refuse "an unknown resource type" "the server doesn't have a resource type \"nonsense\"" get nonsense
refuse "a missing object" 'configmaps "none" not found' get configmap none
refuse "a wrong token" 'must be logged in|Unauthorized' --token=wrong get pods --kubeconfig /dev/null --server "$(k config view --minify -o 'jsonpath={.clusters[0].cluster.server}')" --insecure-skip-tls-verify

TRANSCRIPT= # the following checks are for windlass only
if [ -n "$up" ]; then
  kill -TERM "$up"
  for _ in $(seq 10); do kill -0 "$up" 2>/dev/null || break; sleep 0.1; done
  judge "up stops within a second of SIGTERM" 'gone' "$(kill -0 "$up" 2>/dev/null && echo alive || echo gone)" ok "kill -TERM"
  wait "$up"
  judge "up exits with success" '^0' "$?" ok "kill -TERM"
  up=
fi

echo "$passed passed, $failed failed$([ "$left" -eq 0 ] || echo ", $left left out")"
[ "$failed" -eq 0 ]
