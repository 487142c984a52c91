//! Comparison of the embedded server of a minor version with the kube-apiserver of that version, without recordings.
//!
//! `MINORS.md` lists the cases that differ, with the reason for each.

use std::{collections::BTreeMap, fs};

use windlass_server::KubernetesVersion;

use crate::{
    Target, recording,
    suite::{CHANCES, answers, cases, differences, root},
};

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The number of compared cases.
    pub cases: usize,
    /// The differences by the name of the case. Those that are listed are included.
    pub different: BTreeMap<String, String>,
    /// The listed cases that are equal.
    pub outdated: Vec<String>,
}

impl Comparison {
    /// Returns the share of equal cases in percent.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let equal = self.cases - self.different.len();
        f64::from(u32::try_from(equal).unwrap_or(u32::MAX)) * 100.0
            / f64::from(u32::try_from(self.cases.max(1)).unwrap_or(u32::MAX))
    }

    /// Returns the names of the different cases that `MINORS.md` does not list for the version.
    #[must_use]
    pub fn unlisted(&self, version: KubernetesVersion) -> Vec<&str> {
        let listed = listed(version);
        self.different.keys().map(String::as_str).filter(|name| !listed.contains_key(*name)).collect()
    }
}

/// Compares both servers of a version in these files of cases. `report` receives each unlisted difference when its file
/// is finished.
///
/// # Panics
/// If the environment names no real server.
pub async fn compare_minor(version: KubernetesVersion, files: &[String], report: impl Fn(&str, &str)) -> Comparison {
    let listed = listed(version);
    let upstream = Target::upstream().expect("the environment names the real server");
    let embedded = Target::embedded_of(version).await;
    let mut comparison = Comparison::default();
    for file in files {
        let cases = cases(file);
        comparison.cases += cases.len();
        let seen: BTreeMap<_, _> = answers(&embedded, &cases).await.into_iter().collect();
        let mut open: BTreeMap<_, String> = cases.iter().map(|case| (case.name.clone(), String::new())).collect();
        // The order of some of the real server's responses is random.
        for _ in 0..CHANCES {
            let again: Vec<_> = cases.iter().filter(|case| open.contains_key(&case.name)).collect();
            for (name, expected) in answers(&upstream, again).await {
                if seen[&name] == expected {
                    open.remove(&name);
                } else {
                    open.insert(name.clone(), recording::difference(&expected, &seen[&name]));
                }
            }
        }
        for (name, difference) in open {
            let name = format!("{file}/{name}");
            if !listed.contains_key(&name) {
                report(&name, &difference);
            }
            comparison.different.insert(name, difference);
        }
    }
    embedded.stop().await;
    let compared = |name: &String| files.iter().any(|file| name.starts_with(&format!("{file}/")));
    let outdated = listed.into_keys().filter(compared);
    comparison.outdated = outdated.filter(|name| !comparison.different.contains_key(name)).collect();
    comparison
}

/// Returns the cases of `MINORS.md` for a version, and those of `DIFFERENCES.md`, with their reasons.
///
/// # Panics
/// If a line of a list cannot be parsed.
#[must_use]
pub(crate) fn listed(version: KubernetesVersion) -> BTreeMap<String, String> {
    let path = root().join("MINORS.md");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut listed = differences();
    for line in text.lines().filter_map(|line| line.strip_prefix("- ")) {
        let parts: Vec<&str> = line.splitn(5, '`').collect();
        let ["", versions, " ", name, reason] = parts[..] else { panic!("MINORS.md: no versions and case in: {line}") };
        assert!(reason.len() > 4 && reason.starts_with(": "), "MINORS.md: no reason in: {line}");
        if versions.split(", ").any(|listed| listed == version.to_string()) {
            listed.insert(name.to_owned(), reason.to_owned());
        }
    }
    listed
}
