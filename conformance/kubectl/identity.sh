# auth, create token: identity and permissions.

expect "who am I" '^ATTRIBUTE +VALUE\nUsername +\S+\n(.*\n)*Groups +\[.*system:authenticated' auth whoami
expect "who am I, as data" '^apiVersion: authentication.k8s.io/v1\nkind: SelfSubjectReview\n(.*\n)*status:\n  userInfo:\n' auth whoami -o yaml
expect "I may" '^yes' auth can-i create deployments.apps
expect "I may everything" '^yes' auth can-i '*' '*' --all-namespaces
expect "I may in a subresource" '^yes' auth can-i get pods --subresource=log
expect "I may off the resources" '^yes' auth can-i get /metrics
expect "may I what is not" "Warning: the server doesn't have a resource type 'nonsense'\n(.*\n)*yes" auth can-i get nonsense
expect "all that I may" 'Resources +Non-Resource URLs +Resource Names +Verbs\n(.*\n)*\*\.\* +\[\] +\[\] +\[\*\]' auth can-i --list

# Permissions of roles. A controller aggregates the rules of `view`.
refuse "somebody else may not" '^no' auth can-i list pods --as jane
refuse "and is told so" 'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"' get pods --as jane
expect "let her look" 'rolebinding.rbac.authorization.k8s.io/viewers created' create rolebinding viewers --clusterrole=view --user=jane
settles '^yes' auth can-i list pods --as jane
expect "she looks" '^No resources' get pods --as jane -l app=nobody
refuse "she changes nothing" '^no' auth can-i delete pods --as jane
refuse "nor sees secrets" 'secrets is forbidden: User "jane" cannot list resource "secrets"' get secrets --as jane
refuse "nor gives away what she has not" 'jane' create rolebinding mine --clusterrole=edit --user=joe --as jane
expect "no more" 'rolebinding.rbac.authorization.k8s.io "viewers" deleted' delete rolebinding viewers

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
# Servers cache valid tokens for some seconds.
for _ in $(seq 200); do k --token="$token" auth whoami >/dev/null 2>&1 || break; sleep 0.1; done
refuse "its token is worth nothing then" 'must be logged in|Unauthorized' --token="$token" auth whoami

# CertificateSigningRequests: requested, approved, denied. No certificate is issued, because the signer has no controller.
csr() {
  cat <<YAML
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: $1}
spec:
  signerName: example.org/signer
  usages: [client auth]
  request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWE1IOENBUUF3SFRFTU1Bb0dBMVVFQXd3RFlXNXVNUTB3Q3dZRFZRUUtEQVJqY21WM01Ga3dFd1lIS29aSQp6ajBDQVFZSUtvWkl6ajBEQVFjRFFnQUVlUXBtT2JFVk4wTEVla1BlVEdRRGdNQlJVMmo4OWJiOTdsSWJ1cUgzCmVrTUpwblBjL1ZZNU9CZTdZWWpWeFRoUDg4bDJlKzEyMFYvWC9PT1BsRk96MnFBQU1Bb0dDQ3FHU000OUJBTUMKQTBnQU1FVUNJSFBRbmlZWnlnSkFiZGh0Y0JDVCtFSjhHREtqTThSYjZ2eWxiYUhrazlKK0FpRUEvenRCM2Q1NAo2WmdaY1A5REJlSkJQeFBqN1lwNHduUzFyNHpUWGFxRnIzRT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==
YAML
}
expect "ask for a certificate" 'certificatesigningrequest.certificates.k8s.io/ann created' create -f - < <(csr ann)
expect "its table" 'NAME +AGE +SIGNERNAME +REQUESTOR +REQUESTEDDURATION +CONDITION\nann +\S+ +example.org/signer +\S+ +<none> +Pending' get csr ann
expect "describe it" 'Name: +ann\n(.*\n)*Status: +Pending\nSubject:\n +Common Name: +ann\n(.*\n)* +Organization: +crew' describe csr ann
expect "approve it" 'certificatesigningrequest.certificates.k8s.io/ann approved' certificate approve ann
expect "approve it again" 'certificatesigningrequest.certificates.k8s.io/ann approved' certificate approve ann
expect "it shows" 'ann +\S+ +example.org/signer +\S+ +<none> +Approved' get csr ann
expect "why" '^KubectlApprove This CSR was approved by kubectl certificate approve.' get csr ann -o 'jsonpath={.status.conditions[0].reason} {.status.conditions[0].message}'
refuse "deny what is approved" 'certificate signing request "ann" is already Approved' certificate deny ann
expect "ask again" 'created' create -f - < <(csr bob)
expect "deny it" 'certificatesigningrequest.certificates.k8s.io/bob denied' certificate deny bob
expect "it shows too" 'bob +\S+ +example.org/signer +\S+ +<none> +Denied' get csr bob
refuse "approve nothing" 'certificatesigningrequests.certificates.k8s.io "none" not found' certificate approve none
refuse "ask for nonsense" 'spec.request: Invalid value' create -f - < <(csr bad | sed 's/request: .*/request: bm9uc2Vuc2U=/')
expect "forget them" 'deleted' delete csr ann bob
