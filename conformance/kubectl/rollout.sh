# rollout: every verb, including unsupported ones.

expect "create" 'created' create deployment tide --image=nginx:1 --replicas=2
expect "status without waiting" 'deployment|Waiting' rollout status deployment/tide --watch=false
expect "it rolls out" 'deployment "tide" successfully rolled out' rollout status deployment/tide --timeout=60s
expect "status of what is done" '^deployment "tide" successfully rolled out\n?$' rollout status deployment tide
expect "pause" 'deployment.apps/tide paused' rollout pause deployment/tide
refuse "pause again" 'error: deployments.apps "tide" is already paused' rollout pause deployment/tide
expect "its condition" '^DeploymentPaused Unknown' wait deployment/tide --for=jsonpath='{.status.conditions[?(@.type=="Progressing")].reason}'=DeploymentPaused -o 'jsonpath={.status.conditions[?(@.type=="Progressing")].reason} {.status.conditions[?(@.type=="Progressing")].status}' --timeout=30s
expect "change it meanwhile" 'image updated' set image deployment/tide nginx=nginx:2
expect "nothing happens" '^1\n?$' get deployment tide -o 'jsonpath={.metadata.annotations.deployment\.kubernetes\.io/revision}'
refuse "restart it" 'can.t restart paused deployment \(run rollout resume first\)' rollout restart deployment/tide
refuse "undo it" 'no rollout history found for deployment "tide"' rollout undo deployment/tide
settles '^(\d+) \1$' get deployment tide -o 'jsonpath={.metadata.generation} {.status.observedGeneration}'
expect "describe it" 'Progressing +Unknown +DeploymentPaused' describe deployment tide --show-events=false
expect "resume" 'deployment.apps/tide resumed' rollout resume deployment/tide
refuse "resume again" 'error: deployments.apps "tide" is not paused' rollout resume deployment/tide
expect "it goes on" 'successfully rolled out' rollout status deployment/tide --timeout=60s
expect "two revisions" 'REVISION +CHANGE-CAUSE\n1 +<none>\n2 +<none>' rollout history deployment/tide
expect "one of them" 'with revision #2\nPod Template:\n(.*\n)*\s+Image:\s+nginx:2' rollout history deployment/tide --revision=2
TRANSCRIPT= expect "as data" 'image: nginx:1' rollout history deployment/tide --revision=1 -o yaml
refuse "none of them" 'unable to find the specified revision' rollout history deployment/tide --revision=9
expect "undo without effect" 'deployment.apps/tide Pod Template|rolled back \(server dry run\)' rollout undo deployment/tide --dry-run=server
expect "undo to the first" 'rolled back' rollout undo deployment/tide --to-revision=1
expect "it is back" 'successfully rolled out' rollout status deployment/tide --timeout=60s
expect "undo to what is there" 'skipped rollback \(current template already matches revision 3\)' rollout undo deployment/tide --to-revision=3
expect "restart" 'deployment.apps/tide restarted' rollout restart deployment/tide
expect "it is new" 'successfully rolled out' rollout status deployment/tide --timeout=60s
expect "restart by label" 'deployment.apps/tide restarted' rollout restart deployment -l app=tide
expect "that too" 'successfully rolled out' rollout status deployment -l app=tide --timeout=60s
expect "five revisions, three of them known" '2 +<none>\n3 +<none>\n4 +<none>|2 +<none>\n3 +<none>\n4 +<none>\n5 +<none>' rollout history deployment/tide
expect "one that cannot" 'configured|patched' patch deployment tide -p '{"spec":{"progressDeadlineSeconds":1,"template":{"spec":{"nodeSelector":{"none":"such"}}}}}'
# After its pod is counted, no change extends the deadline.
settles '^3 1 ProgressDeadlineExceeded' get deployment tide -o 'jsonpath={.status.replicas} {.status.updatedReplicas} {.status.conditions[?(@.type=="Progressing")].reason}'
refuse "is given up" 'deployment "tide" exceeded its progress deadline' rollout status deployment/tide --timeout=60s
expect "its condition tells" 'ProgressDeadlineExceeded' get deployment tide -o 'jsonpath={.status.conditions[?(@.type=="Progressing")].reason}'
expect "undo it all the same" 'rolled back' rollout undo deployment/tide
expect "it is well again" 'successfully rolled out' rollout status deployment/tide --timeout=60s
refuse "of what has none" 'no history viewer has been implemented for|no rollbacker|error' rollout history configmap/settings
refuse "of what is not there" 'deployments.apps "none" not found' rollout status deployment/none
expect "with the strategy Recreate" 'patched' patch deployment tide --type=merge -p '{"spec":{"progressDeadlineSeconds":600,"strategy":{"type":"Recreate","rollingUpdate":null}}}'
expect "change it" 'image updated' set image deployment/tide nginx=nginx:3
expect "it replaces" 'successfully rolled out' rollout status deployment/tide --timeout=60s
expect "describe it then" 'StrategyType: +Recreate' describe deployment tide --show-events=false
expect "delete it" 'deleted' delete deployment tide
