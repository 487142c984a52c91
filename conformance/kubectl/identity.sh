# auth, create token: who one is and what one may.

expect "who am I" '^ATTRIBUTE +VALUE\nUsername +\S+\n(.*\n)*Groups +\[.*system:authenticated' auth whoami
expect "who am I, as data" '^apiVersion: authentication.k8s.io/v1\nkind: SelfSubjectReview\n(.*\n)*status:\n  userInfo:\n' auth whoami -o yaml
expect "I may" '^yes' auth can-i create deployments.apps
expect "I may everything" '^yes' auth can-i '*' '*' --all-namespaces
expect "I may in a subresource" '^yes' auth can-i get pods --subresource=log
expect "I may off the resources" '^yes' auth can-i get /metrics
expect "may I what is not" "Warning: the server doesn't have a resource type 'nonsense'\n(.*\n)*yes" auth can-i get nonsense
expect "all that I may" 'Resources +Non-Resource URLs +Resource Names +Verbs\n(.*\n)*\*\.\* +\[\] +\[\] +\[\*\]' auth can-i --list

expect "create token" '^eyJ[\w-]+\.[\w-]+\.[\w-]+\n?$' create token default
expect "for a while" '^eyJ' create token default --duration=20m
expect "for an audience" '^eyJ' create token default --audience=harbour
expect "as data" 'kind: TokenRequest\n(.*\n)*spec:\n  audiences:\n  - https://kubernetes.default.svc' create token default -o yaml
refuse "of no account" 'serviceaccounts "none" not found' create token none
refuse "for too short a while" 'may not specify a duration less than 10 minutes' create token default --duration=1m
expect "of an account of one's own" 'serviceaccount/robot created' create serviceaccount robot
token=$(k create token robot)
expect "who it is" 'Username +system:serviceaccount:default:robot\n(.*\n)*Groups +\[system:serviceaccounts system:serviceaccounts:default system:authenticated\]' --token="$token" auth whoami
expect "it can be deleted" 'deleted' delete serviceaccount robot
# Servers remember for some seconds that a token was good.
for _ in $(seq 200); do k --token="$token" auth whoami >/dev/null 2>&1 || break; sleep 0.1; done
refuse "its token is worth nothing then" 'must be logged in|Unauthorized' --token="$token" auth whoami
