//! The names of the admission plugins, their order, and the choice of the plugins that run.

use super::AdmissionConfigurationError;

/// A plugin of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    name: &'static str,
    default: Default,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Default {
    On,
    Off,
    /// Off, and not implemented.
    Missing,
}

const fn on(name: &'static str) -> Known {
    Known { name, default: Default::On }
}

const fn off(name: &'static str) -> Known {
    Known { name, default: Default::Off }
}

/// All plugins, in the order in which they run. `PodGroupProtection`, `PodGroupWorkloadExists` and `JobValidation` do
/// nothing without feature gates that are off by default. `AlwaysAdmit` never does anything.
const PLUGINS: &[Known] = &[
    off("AlwaysAdmit"),
    off("NamespaceAutoProvision"),
    on("NamespaceLifecycle"),
    off("NamespaceExists"),
    off("LimitPodHardAntiAffinityTopology"),
    on("LimitRanger"),
    on("ServiceAccount"),
    off("NodeRestriction"),
    on("TaintNodesByCondition"),
    off("AlwaysPullImages"),
    Known { name: "ImagePolicyWebhook", default: Default::Missing },
    on("PodSecurity"),
    off("PodNodeSelector"),
    on("Priority"),
    on("DefaultTolerationSeconds"),
    off("PodTolerationRestriction"),
    off("EventRateLimit"),
    off("ExtendedResourceToleration"),
    on("DefaultStorageClass"),
    on("StorageObjectInUseProtection"),
    on("PodGroupProtection"),
    off("OwnerReferencesPermissionEnforcement"),
    on("PersistentVolumeClaimResize"),
    on("RuntimeClass"),
    on("CertificateApproval"),
    on("CertificateSigning"),
    on("ClusterTrustBundleAttest"),
    on("CertificateSubjectRestriction"),
    on("DefaultIngressClass"),
    off("DenyServiceExternalIPs"),
    on("PodTopologyLabels"),
    on("PodGroupWorkloadExists"),
    on("NodeDeclaredFeatureValidator"),
    on("JobValidation"),
    on("PodResizeValidator"),
    on("MutatingAdmissionPolicy"),
    on("MutatingAdmissionWebhook"),
    on("ValidatingAdmissionPolicy"),
    on("ValidatingAdmissionWebhook"),
    on("ResourceQuota"),
    off("AlwaysDeny"),
];

/// The admission plugins that run. By default they are those of kube-apiserver.
///
/// ```
/// use windlass_server::{AdmissionConfiguration, AdmissionPlugins};
///
/// let plugins = AdmissionPlugins::new(&["AlwaysPullImages"], &["DefaultTolerationSeconds"])?;
/// let configuration = AdmissionConfiguration::new(plugins)?;
/// let server = windlass_server::Server::builder().admission(configuration).build();
/// # drop(server);
/// # Ok::<(), windlass_server::AdmissionConfigurationError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionPlugins {
    /// A bit for each plugin of [`PLUGINS`].
    on: u64,
    /// Those that were enabled by their names.
    named: u64,
}

impl std::default::Default for AdmissionPlugins {
    fn default() -> Self {
        Self { on: bits(|known| known.default == Default::On), named: 0 }
    }
}

impl AdmissionPlugins {
    /// Enables and disables plugins in addition to the default choice, as `--enable-admission-plugins` and
    /// `--disable-admission-plugins` of kube-apiserver. The order of the names does not matter.
    ///
    /// # Errors
    /// Returns an error if a name is unknown or in both lists, or if the enabled plugin is not implemented.
    pub fn new(enabled: &[&str], disabled: &[&str]) -> Result<Self, AdmissionConfigurationError> {
        let mut problems = unknown("enable-admission-plugins", enabled);
        problems.extend(unknown("disable-admission-plugins", disabled));
        let mut both: Vec<&str> = enabled.iter().filter(|name| disabled.contains(name)).copied().collect();
        both.sort_unstable();
        both.dedup();
        if !both.is_empty() {
            let both = both.join(" ");
            problems.push(format!("[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"));
        }
        problems.extend(missing("enable-admission-plugins", enabled));
        if !problems.is_empty() {
            return Err(AdmissionConfigurationError::Plugins(problems));
        }
        let named = bits(|known| enabled.contains(&known.name));
        let default = Self::default().on;
        Ok(Self { on: default & !bits(|known| disabled.contains(&known.name)) | named, named })
    }

    /// Enables these plugins and no others, as the deprecated flag `--admission-control` of kube-apiserver.
    ///
    /// # Errors
    /// Returns an error if a name is unknown, or if the plugin is not implemented.
    pub fn only(names: &[&str]) -> Result<Self, AdmissionConfigurationError> {
        let mut problems = unknown("admission-control", names);
        problems.extend(missing("admission-control", names));
        if !problems.is_empty() {
            return Err(AdmissionConfigurationError::Plugins(problems));
        }
        let on = bits(|known| names.contains(&known.name));
        Ok(Self { on, named: on })
    }

    /// Returns the names of all plugins, in the order in which they run.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PLUGINS.iter().map(|known| known.name)
    }

    /// Reports whether a plugin of kube-apiserver is not implemented, so that it cannot be enabled.
    #[must_use]
    pub fn is_missing(name: &str) -> bool {
        find(name).is_some_and(|known| known.default == Default::Missing)
    }

    /// Reports whether a plugin runs.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.on & bits(|known| known.name == name) != 0
    }

    /// Reports whether a plugin was enabled by its name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.named & bits(|known| known.name == name) != 0
    }

    /// Returns the names of the plugins that run, in their order.
    pub(super) fn enabled(self) -> impl Iterator<Item = &'static str> {
        PLUGINS.iter().enumerate().filter(move |(index, _)| self.on >> index & 1 == 1).map(|(_, known)| known.name)
    }

    pub(super) fn with(mut self, name: &str) -> Self {
        self.named |= bits(|known| known.name == name);
        self.on |= self.named;
        self
    }
}

fn find(name: &str) -> Option<&'static Known> {
    PLUGINS.iter().find(|known| known.name == name)
}

fn bits(mut is_set: impl FnMut(&Known) -> bool) -> u64 {
    PLUGINS.iter().enumerate().filter(|(_, known)| is_set(known)).fold(0, |bits, (index, _)| bits | 1 << index)
}

fn unknown(flag: &str, names: &[&str]) -> Vec<String> {
    let unknown = names.iter().filter(|name| find(name).is_none());
    unknown.map(|name| format!("{flag} plugin {name:?} is unknown")).collect()
}

fn missing<'n>(flag: &'n str, names: &'n [&str]) -> impl Iterator<Item = String> + 'n {
    let missing = names.iter().filter(|name| AdmissionPlugins::is_missing(name));
    missing.map(move |name| format!("{flag} plugin {name:?} is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_plugins_are_those_of_kube_apiserver() {
        let names: Vec<&str> = AdmissionPlugins::default().enabled().collect();
        assert_eq!(names.len(), 27);
        assert_eq!((names[0], names[26]), ("NamespaceLifecycle", "ResourceQuota"));
        assert!(!names.contains(&"NodeRestriction"));
    }

    #[test]
    fn names_of_flags_are_checked() {
        let refused =
            |enabled: &[&str], disabled: &[&str]| AdmissionPlugins::new(enabled, disabled).unwrap_err().to_string();
        assert_eq!(refused(&["X"], &[]), "enable-admission-plugins plugin \"X\" is unknown");
        assert_eq!(
            refused(&["X"], &["Y"]),
            "[enable-admission-plugins plugin \"X\" is unknown, disable-admission-plugins plugin \"Y\" is unknown]"
        );
        assert_eq!(
            refused(&["ResourceQuota", "LimitRanger"], &["LimitRanger", "ResourceQuota"]),
            "[LimitRanger ResourceQuota] in enable-admission-plugins and disable-admission-plugins overlapped"
        );
        let missing = refused(&["ImagePolicyWebhook"], &[]);
        assert_eq!(missing, "enable-admission-plugins plugin \"ImagePolicyWebhook\" is not supported");
        let error = AdmissionPlugins::only(&["Z"]).unwrap_err().to_string();
        assert_eq!(error, "admission-control plugin \"Z\" is unknown");
    }

    #[test]
    fn flags_change_the_default_choice() {
        let plugins = AdmissionPlugins::new(&["AlwaysDeny", "Priority"], &["LimitRanger", "AlwaysAdmit"]).unwrap();
        for (name, is_on) in [
            ("AlwaysDeny", true),
            ("Priority", true),
            ("LimitRanger", false),
            ("AlwaysAdmit", false),
            ("PodSecurity", true),
        ] {
            assert_eq!(plugins.contains(name), is_on, "{name}");
        }
        assert!(plugins.is_named("Priority") && !plugins.is_named("PodSecurity"));
        let only = AdmissionPlugins::only(&["ResourceQuota", "NamespaceLifecycle"]).unwrap();
        assert_eq!(only.enabled().collect::<Vec<_>>(), ["NamespaceLifecycle", "ResourceQuota"]);
    }
}
