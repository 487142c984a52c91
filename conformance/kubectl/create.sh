# create and run: every generator, printed and stored.

expect "run with everything" 'pod/task created' run task --image=busybox --restart=OnFailure --labels=a=b,c=d --env=X=y --port=80 --command -- sleep 1
expect "as it was said" '^OnFailure sleep,1 X 80' get pod task -o 'jsonpath={.spec.restartPolicy} {.spec.containers[0].command[0]},{.spec.containers[0].command[1]} {.spec.containers[0].env[0].name} {.spec.containers[0].ports[0].containerPort}'
expect "run on paper" '^apiVersion: v1\nkind: Pod\n(.*\n)*  name: paper\n' run paper --image=busybox --dry-run=client -o yaml
expect "run on the server's paper" 'uid: ' run paper --image=busybox --dry-run=server -o yaml
expect "run and expose" 'service/shop created\npod/shop created|pod/shop created\nservice/shop created' run shop --image=nginx --port=80 --expose
expect "run with overrides" 'pod/over created' run over --image=nginx --overrides='{"spec":{"hostname":"h"}}'
refuse "run without an image" 'required flag\(s\) .?"image.?" not set' run none
refuse "run under a bad name" 'The Pod "Bad_Name" is invalid|Invalid pod name' run Bad_Name --image=nginx
refuse "expose without a port" "couldn't find port via --port flag or introspection" expose pod over --name=none
refuse "run under no account" 'pods "ghost" is forbidden: error looking up service account default/ghost: serviceaccount "ghost" not found' run ghost --image=nginx --overrides='{"spec":{"serviceAccountName":"ghost"}}'
expect "run without a token" '^\n?$' run tokenless --image=nginx --dry-run=server --overrides='{"spec":{"automountServiceAccountToken":false}}' -o 'jsonpath={.spec.volumes}'
expect "they run" '(pod/\w+ condition met\n?){3}' wait pod task shop over --for=condition=Ready --timeout=60s
expect "delete them now" '(pod "\w+" force deleted.*\n?){3}' delete pod task shop over --force --grace-period=0
expect "and the service" 'deleted' delete service shop

expect "configmap of files" 'configmap/files created' create configmap files --from-file="$work/app.yaml" --from-file=key="$work/bad.yaml" --from-literal=a=b
expect "its table" 'files +3' get configmap files
TRANSCRIPT= expect "describe it" 'Data\n====\n(.*\n)*a:\n----\nb\n' describe configmap files
expect "secret of a registry" 'secret/pull created' create secret docker-registry pull --docker-username=u --docker-password=p --docker-email=e@example.org
expect "its type" 'pull +kubernetes.io/dockerconfigjson +1' get secret pull
expect "describe a secret" 'Type: +kubernetes.io/dockerconfigjson\n\nData\n====\n.dockerconfigjson: +\d+ bytes' describe secret pull
refuse "a secret of another shape" 'Invalid value: "<secret contents redacted>"|data\[\.dockerconfigjson\]: Required value' create secret generic wrong --type=kubernetes.io/dockerconfigjson --from-literal=a=b
expect "service clusterip" 'service/inner created' create service clusterip inner --tcp=80:8080 --tcp=81
expect "service headless" 'service/headless created' create service clusterip headless --clusterip=None
expect "service nodeport" 'service/outer created' create service nodeport outer --tcp=80 --node-port=31234
expect "service loadbalancer" 'service/balanced created' create service loadbalancer balanced --tcp=80
expect "service externalname" 'service/named created' create service externalname named --external-name=example.org
expect "their table" 'balanced +LoadBalancer +10\.\S+ +<pending> +80:3\d+/TCP +\S+\nheadless +ClusterIP +None +<none> +<none> +\S+\ninner +ClusterIP +10\.\S+ +<none> +80/TCP,81/TCP +\S+\nkubernetes.*\nnamed +ExternalName +<none> +example.org +<none> +\S+\nouter +NodePort +10\.\S+ +<none> +80:31234/TCP' get services
refuse "a node port that is taken" 'Invalid value: 31234: provided port is already allocated' create service nodeport again --tcp=80 --node-port=31234
refuse "a node port out of range" 'provided port is not in the valid range. The range of valid ports is 30000-32767' create service nodeport again --tcp=80 --node-port=80
expect "cronjob" 'cronjob.batch/nightly created' create cronjob nightly --image=busybox --schedule='0 3 * * *' -- true
expect "its table" 'NAME +SCHEDULE +TIMEZONE +SUSPEND +ACTIVE +LAST SCHEDULE +AGE\nnightly +0 3 \* \* \* +<none> +False +0 +<none>' get cronjob nightly
refuse "a bad schedule" 'spec.schedule: Invalid value: "never"' create cronjob bad --image=busybox --schedule=never
expect "job" 'job.batch/once created' create job once --image=busybox -- true
expect "job of a cronjob" 'job.batch/tonight created' create job tonight --from=cronjob/nightly
expect "its owner" '^CronJob/nightly' get job tonight -o 'jsonpath={.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name}'
expect "namespace on paper" '^apiVersion: v1\nkind: Namespace\nmetadata:\n(  creationTimestamp: null\n)?  name: paper\n' create namespace paper --dry-run=client -o yaml
expect "deployment on the server's paper" 'progressDeadlineSeconds: 600' create deployment paper --image=nginx --dry-run=server -o yaml
expect "clean up" 'deleted' delete configmap/files secret/pull service/inner service/headless service/outer service/balanced service/named
TRANSCRIPT= expect "jobs" 'deleted' delete cronjob/nightly job/once job/tonight --ignore-not-found

if needs roles.rbac.authorization.k8s.io "create role, rolebinding, auth reconcile, set subject"; then
  expect "role" 'role.rbac.authorization.k8s.io/reader created' create role reader --verb=get,list --resource=pods,deployments.apps
  expect "rolebinding" 'rolebinding.rbac.authorization.k8s.io/readers created' create rolebinding readers --role=reader --user=ann
  expect "set subject" 'rolebinding.rbac.authorization.k8s.io/readers subjects updated' set subject rolebinding readers --serviceaccount=default:default
  expect "describe role" 'PolicyRule:\n +Resources +Non-Resource URLs +Resource Names +Verbs\n(.*\n)* +pods +\[\] +\[\] +\[get list\]' describe role reader
  expect "clusterrole" 'clusterrole.rbac.authorization.k8s.io/watchers created' create clusterrole watchers --verb=watch --resource=nodes
  expect "clusterrolebinding" 'created' create clusterrolebinding watchers --clusterrole=watchers --group=g
  expect "reconcile" 'role.rbac.authorization.k8s.io/reader reconciled' auth reconcile -f - < <(k create role reader -n default --verb=get --resource=pods --dry-run=client -o yaml)
  expect "clean up" 'deleted' delete role/reader rolebinding/readers clusterrole/watchers clusterrolebinding/watchers
fi
if needs ingresses.networking.k8s.io "create ingress"; then
  expect "ingress" 'ingress.networking.k8s.io/gate created' create ingress gate --rule='example.org/*=site:80' --class=none
  expect "its table" 'NAME +CLASS +HOSTS +ADDRESS +PORTS +AGE\ngate +none +example.org +80 ' get ingress gate
  expect "delete it" 'deleted' delete ingress gate
fi
if needs poddisruptionbudgets.policy "create poddisruptionbudget"; then
  expect "budget" 'poddisruptionbudget.policy/careful created' create poddisruptionbudget careful --selector=app=careful --min-available=1
  expect "its table" 'NAME +MIN AVAILABLE +MAX UNAVAILABLE +ALLOWED DISRUPTIONS +AGE\ncareful +1 +N/A +0 ' get pdb careful
  expect "delete it" 'deleted' delete pdb careful
fi
if needs priorityclasses.scheduling.k8s.io "create priorityclass"; then
  expect "priority class" 'priorityclass.scheduling.k8s.io/urgent created' create priorityclass urgent --value=1000 --description=first
  expect "its table" 'NAME +VALUE +GLOBAL-DEFAULT +AGE( +PREEMPTIONPOLICY)?\nurgent +1000 +false ' get priorityclass urgent
  expect "delete it" 'deleted' delete priorityclass urgent
fi
if needs resourcequotas "create quota"; then
  expect "quota" 'resourcequota/little created' create quota little -n kube-public --hard=pods=2
  expect "delete it" 'deleted' delete quota little -n kube-public
fi
