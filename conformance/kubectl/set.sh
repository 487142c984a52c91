# set, expose, autoscale.

expect "create" 'created' create deployment site --image=nginx:1.25 --replicas=2 --port=80
expect "it rolls out" 'successfully rolled out' rollout status deployment/site --timeout=60s
expect "set image" 'deployment.apps/site image updated' set image deployment/site nginx=nginx:1.26
expect "set the same image" '^\n?$' set image deployment/site nginx=nginx:1.26
refuse "set the image of no container" 'unable to find container named "other"' set image deployment/site other=x
refuse "set the image of nothing" 'deployments.apps "none" not found' set image deployment/none a=b
expect "set image without effect" '^nginx:1.27' set image deployment/site '*=nginx:1.27' --dry-run=server -o 'jsonpath={.spec.template.spec.containers[0].image}'
expect "set env" 'deployment.apps/site env updated' set env deployment/site A=b C=d
expect "list env" '# Deployment site, container nginx\nA=b\nC=d' set env deployment/site --list
expect "unset env" 'deployment.apps/site env updated' set env deployment/site A-
expect "one is left" '^C' get deployment site -o 'jsonpath={.spec.template.spec.containers[0].env[*].name}'
expect "a map of variables" 'configmap/variables created' create configmap variables --from-literal=colour=blue
expect "set env from it" 'deployment.apps/site env updated' set env deployment/site --from=configmap/variables
expect "by reference" '^variables' get deployment site -o 'jsonpath={.spec.template.spec.containers[0].env[?(@.name=="COLOUR")].valueFrom.configMapKeyRef.name}'
expect "set resources" 'deployment.apps/site resource requirements updated' set resources deployment/site --limits=cpu=1000m,memory=512Mi --requests=cpu=0.1
expect "quantities are canonical" '^\{"limits":\{"cpu":"1","memory":"512Mi"\},"requests":\{"cpu":"100m"\}\}' get deployment site -o 'jsonpath={.spec.template.spec.containers[0].resources}'
refuse "requests above limits" 'Invalid value: "2": must be less than or equal to cpu limit of 1' set resources deployment/site --requests=cpu=2
expect "create service account" 'serviceaccount/robot created' create serviceaccount robot
expect "set serviceaccount" 'deployment.apps/site serviceaccount updated' set serviceaccount deployment/site robot
expect "in both places" '^robot robot' get deployment site -o 'jsonpath={.spec.template.spec.serviceAccountName} {.spec.template.spec.serviceAccount}'
refuse "an unknown revision" 'unable to find specified revision 99 in history' rollout undo deployment/site --to-revision=99
expect "all of it rolls out" 'successfully rolled out' rollout status deployment/site --timeout=60s

expect "expose" 'service/site exposed' expose deployment site
expect "by its port" 'site +ClusterIP +10\.\S+ +<none> +80/TCP' get service site
refuse "expose again" 'services "site" already exists' expose deployment site
expect "expose as another" 'service/front exposed' expose deployment site --name=front --port=8080 --target-port=http --type=NodePort --protocol=UDP
expect "with a node port" 'front +NodePort +10\.\S+ +<none> +8080:3\d\d\d\d/UDP' get service front
expect "set selector" 'service/front selector updated' set selector service front app=other
expect "it is set" '^\{"app":"other"\}' get service front -o 'jsonpath={.spec.selector}'
expect "expose a service" 'service/behind exposed' expose service front --name=behind --port=1

if needs horizontalpodautoscalers.autoscaling autoscale; then
  expect "autoscale" 'horizontalpodautoscaler.autoscaling/site autoscaled' autoscale deployment site --min=2 --max=5 --cpu-percent=80
  expect "its columns" 'NAME +REFERENCE +TARGETS +MINPODS +MAXPODS +REPLICAS +AGE\nsite +Deployment/site +cpu: <unknown>/80% +2 +5 ' get hpa site
  expect "describe it" 'Reference: +Deployment/site\n(.*\n)*Min replicas: +2\nMax replicas: +5' describe hpa site
  refuse "autoscale again" 'horizontalpodautoscalers.autoscaling "site" already exists|failed to create autoscaling/v2 HPA' autoscale deployment site --max=5
  expect "delete it" 'deleted' delete hpa site
fi
expect "clean up" 'deleted' delete service site front behind
expect "more" 'deleted' delete deployment/site configmap/variables
expect "and more" 'deleted' delete serviceaccount robot
