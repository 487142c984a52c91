//! The flags for the tokens of service accounts. With those of kube-apiserver, its tokens stay valid, and it accepts the
//! tokens of this server.

use std::{error::Error, fs, path::PathBuf};

use clap::Args;
use windlass_server::TokenIssuer;

/// The issuer and the keys of tokens. Without flags, the data directory has the key.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TokenKeys {
    /// Issuer of service account tokens, a URL; of several, the first one issues and all are accepted
    #[arg(long, value_name = "URL")]
    service_account_issuer: Vec<String>,
    /// File with the private key that signs service account tokens: RSA, or ECDSA over P-256 or P-384, in PEM. By default
    /// the key is in the data directory, or generated
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// File with further keys that verify service account tokens: public keys, private keys or certificates; can be repeated
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
}

/// The default issuer of the server.
const ISSUER: &str = "https://kubernetes.default.svc";

impl TokenKeys {
    /// Returns the names of all issuers.
    pub(crate) fn issuers(&self) -> Vec<String> {
        if self.service_account_issuer.is_empty() {
            vec![ISSUER.to_owned()]
        } else {
            self.service_account_issuer.clone()
        }
    }

    /// Applies the flags to the issuer of a data directory.
    pub(crate) fn apply(&self, issuer: TokenIssuer) -> Result<TokenIssuer, Box<dyn Error>> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let failed = |path: &PathBuf, error| format!("{}: {error}", path.display());
        let mut issuer = issuer;
        let mut names = self.service_account_issuer.iter();
        if let Some(name) = names.next() {
            issuer = issuer.renamed(name.as_str());
        }
        for name in names {
            issuer = issuer.accepting(name.as_str());
        }
        if let Some(path) = &self.service_account_signing_key_file {
            issuer = issuer.signing_with(&read(path)?).map_err(|error| failed(path, error))?;
        }
        for path in &self.service_account_key_file {
            issuer = issuer.verifying_with(&read(path)?).map_err(|error| failed(path, error))?;
        }
        Ok(issuer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key.pem");
        fs::write(&file, "no key").unwrap();
        let missing = directory.path().join("missing.pem");
        let shown = |path: &PathBuf| path.display().to_string();
        for (path, message) in [
            (&file, format!("{}: cannot parse the key of service account tokens as PEM", shown(&file))),
            (&missing, format!("cannot read {}: ", shown(&missing))),
        ] {
            let signing = TokenKeys { service_account_signing_key_file: Some(path.clone()), ..TokenKeys::default() };
            let verifying = TokenKeys { service_account_key_file: vec![path.clone()], ..TokenKeys::default() };
            for keys in [signing, verifying] {
                let error = keys.apply(TokenIssuer::default()).unwrap_err().to_string();
                assert!(error.starts_with(&message), "{error}");
            }
        }
    }
}
