// Package e2e pins the module that Kubernetes' end-to-end tests are built from. `cargo xtask long e2e` compiles the tests of the imported package.
package e2e

import _ "k8s.io/kubernetes/test/e2e"
