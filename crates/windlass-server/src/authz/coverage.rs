//! The comparison of the permissions that a user holds with those that the user is about to grant.
//!
//! A rule is the product of its groups, resources, verbs and names. Products are compared without expanding them: the
//! parts that a held rule covers are cut out. Only missing permissions are listed one by one, up to the maximum length
//! of an answer.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Rule, rule::ALL};

/// The maximum number of rule entries that one comparison inspects. kube-apiserver compares every combination with
/// every held rule, which for large rules takes minutes or does not finish.
const MAX_WORK: usize = 5_000_000;
/// The maximum number of bytes of text about missing permissions.
const MAX_TEXT: usize = 2 << 20;
/// The maximum number of lines of that text, in the order in which they are found.
const MAX_LINES: usize = 20_000;

/// Returns the permissions that `requested` grants beyond `held`, as text with one line for each resource.
pub(crate) fn missing(held: &[Rule], requested: &[Rule]) -> BTreeSet<String> {
    let mut comparison = Comparison::new(held);
    let missing = comparison.missing(requested);
    if comparison.work > MAX_WORK {
        return BTreeSet::from(["the rules are too many to be compared: write smaller roles".to_owned()]);
    }
    missing.describe()
}

/// Returns the permissions that `requested` grants beyond `held`, in their order, as rules with one value for each field.
/// Returns none if the rules are too many to be compared.
pub(crate) fn uncovered(held: &[Rule], requested: &[Rule]) -> Vec<Rule> {
    let mut comparison = Comparison::new(held);
    let mut uncovered = Vec::new();
    for rule in requested {
        for fields in [Fields::of_resources(rule), Fields::of_paths(rule)] {
            let products = comparison.uncovered(&fields);
            let mut permissions: Vec<Vec<usize>> = products.into_iter().flat_map(Product::permissions).collect();
            permissions.sort_unstable();
            uncovered.extend(permissions.iter().map(|permission| fields.rule(permission)));
        }
    }
    if comparison.work > MAX_WORK { Vec::new() } else { uncovered }
}

/// The permissions of one user, prepared for lookups.
struct Comparison<'r> {
    held: Vec<HeldRule<'r>>,
    work: usize,
}

/// A held rule, with a set for each of its fields.
struct HeldRule<'r> {
    verbs: HashSet<&'r str>,
    groups: HashSet<&'r str>,
    resources: HashSet<&'r str>,
    names: HashSet<&'r str>,
    paths: Paths<'r>,
}

/// Exact paths and path prefixes.
struct Paths<'r> {
    whole: HashSet<&'r str>,
    /// Sorted, and no entry is a prefix of another. So the only candidate for a path is the last entry that is not
    /// after it.
    prefixes: Vec<&'r str>,
}

/// The fields whose product is a rule.
struct Fields<'r> {
    kind: FieldsOf,
    /// Groups, resources, verbs and names, or paths and verbs.
    sides: Vec<Vec<&'r str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldsOf {
    /// Resources with any name.
    Resources,
    Named,
    Paths,
}

/// A product that is not covered yet: indexes into the fields of the requested rule.
#[derive(Clone, Debug)]
struct Product {
    sides: Vec<Vec<usize>>,
}

/// The missing permissions.
#[derive(Default)]
struct Missing<'r> {
    /// Verbs by object, each with its position. Verbs for paths have one line each.
    lines: BTreeMap<Line<'r>, Vec<([usize; 5], &'r str)>>,
    bytes: usize,
    /// The lines are incomplete because a limit was reached.
    truncated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line<'r> {
    Resource {
        group: &'r str,
        resource: &'r str,
        name: Option<&'r str>,
    },
    /// The second field is the index among the missing paths: each path and each verb has its own line.
    Path(&'r str, usize),
}

// === impl Comparison ===

impl<'r> Comparison<'r> {
    fn new(held: &'r [Rule]) -> Self {
        Self { held: held.iter().map(HeldRule::new).collect(), work: 0 }
    }

    fn missing(&mut self, requested: &'r [Rule]) -> Missing<'r> {
        let mut missing = Missing::default();
        for (index, rule) in requested.iter().enumerate() {
            // A rule with both resources and paths is treated as two rules.
            for fields in [Fields::of_resources(rule), Fields::of_paths(rule)] {
                for product in self.uncovered(&fields) {
                    missing.add(index, &fields, &product);
                }
            }
            if missing.truncated || self.work > MAX_WORK {
                break;
            }
        }
        missing
    }

    /// Returns the rest of a rule after all covered permissions are cut out.
    fn uncovered(&mut self, fields: &Fields<'_>) -> Vec<Product> {
        let whole = Product { sides: fields.sides.iter().map(|side| (0..side.len()).collect()).collect() };
        if whole.sides.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        let mut left = vec![whole];
        for held in &self.held {
            let mut next = Vec::with_capacity(left.len());
            for product in left {
                self.work += 1;
                // Permissions that have not been compared count as missing.
                if self.work > MAX_WORK {
                    next.push(product);
                } else {
                    product.without(&mut next, &mut self.work, |side, at| {
                        held.covers(fields, side, fields.sides[side][at])
                    });
                }
            }
            left = next;
            if left.is_empty() {
                break;
            }
        }
        left
    }
}

// === impl Fields ===

impl<'r> Fields<'r> {
    fn of_resources(rule: &'r Rule) -> Self {
        // An empty list of names becomes one empty name, which stands for all names.
        let names = if rule.names.is_empty() { vec![""] } else { texts(&rule.names) };
        Self {
            kind: if rule.names.is_empty() { FieldsOf::Resources } else { FieldsOf::Named },
            sides: vec![texts(&rule.groups), texts(&rule.resources), texts(&rule.verbs), names],
        }
    }

    fn of_paths(rule: &'r Rule) -> Self {
        Self { kind: FieldsOf::Paths, sides: vec![texts(&rule.paths), texts(&rule.verbs)] }
    }

    /// Returns the rule of one permission: an index for each field.
    fn rule(&self, permission: &[usize]) -> Rule {
        let one = |side: usize| vec![self.sides[side][permission[side]].to_owned()];
        match self.kind {
            FieldsOf::Paths => Rule { paths: one(0), verbs: one(1), ..Rule::default() },
            FieldsOf::Resources => Rule { groups: one(0), resources: one(1), verbs: one(2), ..Rule::default() },
            FieldsOf::Named => {
                Rule { groups: one(0), resources: one(1), verbs: one(2), names: one(3), ..Rule::default() }
            }
        }
    }
}

fn texts(field: &[String]) -> Vec<&str> {
    field.iter().map(String::as_str).collect()
}

fn has(own: &HashSet<&str>, requested: &str) -> bool {
    own.contains(ALL) || own.contains(requested)
}

// === impl Held ===

impl<'r> HeldRule<'r> {
    fn new(rule: &'r Rule) -> Self {
        let set = |field: &'r [String]| field.iter().map(String::as_str).collect();
        Self {
            verbs: set(&rule.verbs),
            groups: set(&rule.groups),
            resources: set(&rule.resources),
            names: set(&rule.names),
            paths: Paths::new(&rule.paths),
        }
    }

    /// Reports whether the rule covers one value of one field.
    fn covers(&self, fields: &Fields<'_>, side: usize, text: &str) -> bool {
        match (fields.kind, side) {
            // A rule that is restricted to names covers no paths.
            (FieldsOf::Paths, 0) => self.names.is_empty() && self.paths.contains(text),
            (FieldsOf::Paths, _) | (_, 2) => has(&self.verbs, text),
            (_, 0) => has(&self.groups, text),
            (_, 1) => self.covers_resource(text),
            (kind, _) => self.names.is_empty() || kind == FieldsOf::Named && self.names.contains(text),
        }
    }

    fn covers_resource(&self, requested: &str) -> bool {
        match requested.split_once('/') {
            None => has(&self.resources, requested),
            Some((resource, "")) => has(&self.resources, resource),
            Some((_, subresource)) => {
                has(&self.resources, requested) || self.resources.contains(&*format!("{ALL}/{subresource}"))
            }
        }
    }
}

// === impl Paths ===

impl<'r> Paths<'r> {
    fn new(paths: &'r [String]) -> Self {
        let mut sorted: Vec<&str> =
            paths.iter().filter(|path| path.ends_with(ALL)).map(|path| path.trim_end_matches(ALL)).collect();
        sorted.sort_unstable();
        let mut prefixes: Vec<&str> = Vec::with_capacity(sorted.len());
        for path in sorted {
            if !prefixes.last().is_some_and(|last| path.starts_with(last)) {
                prefixes.push(path);
            }
        }
        Self { whole: paths.iter().map(String::as_str).collect(), prefixes }
    }

    fn contains(&self, path: &str) -> bool {
        let after = self.prefixes.partition_point(|prefix| *prefix <= path);
        let last = after.checked_sub(1).and_then(|at| self.prefixes.get(at));
        self.whole.contains(path) || last.is_some_and(|prefix| path.starts_with(prefix))
    }
}

// === impl Product ===

impl Product {
    /// Returns the permissions of the product: an index for each field.
    fn permissions(self) -> Vec<Vec<usize>> {
        self.sides.into_iter().fold(vec![Vec::new()], |permissions, side| {
            let extended = |permission: Vec<usize>| side.iter().map(move |at| [&*permission, &[*at]].concat());
            permissions.into_iter().flat_map(extended).collect()
        })
    }

    /// Adds the rest after a smaller product is cut out, as disjoint products.
    fn without(self, left: &mut Vec<Self>, work: &mut usize, covered: impl Fn(usize, usize) -> bool) {
        let mut split = Vec::with_capacity(self.sides.len());
        for (side, all) in self.sides.iter().enumerate() {
            *work += all.len();
            let (inside, outside): (Vec<usize>, Vec<usize>) = all.iter().partition(|at| covered(side, **at));
            if inside.is_empty() {
                return left.push(self);
            }
            split.push((inside, outside));
        }
        let mut rest = self.sides;
        for (side, (inside, outside)) in split.into_iter().enumerate() {
            if !outside.is_empty() {
                let mut sides = rest.clone();
                sides[side] = outside;
                *work += sides.iter().map(Vec::len).sum::<usize>();
                left.push(Self { sides });
            }
            rest[side] = inside;
        }
    }
}

// === impl Missing ===

impl<'r> Missing<'r> {
    /// Adds the permissions of a product, until a limit is reached. `rule` is the index of the rule.
    fn add(&mut self, rule: usize, fields: &Fields<'r>, product: &Product) {
        let side = |side: usize| product.sides[side].iter().map(move |at| (*at, fields.sides[side][*at]));
        if fields.kind == FieldsOf::Paths {
            for (path, (verb, word)) in side(0).flat_map(|path| side(1).map(move |verb| (path, verb))) {
                let line = Line::Path(path.1, self.lines.len());
                if !self.push(line, [rule, path.0, 0, verb, 0], word) {
                    return;
                }
            }
            return;
        }
        for ((group, in_group), (resource, of)) in
            side(0).flat_map(|group| side(1).map(move |resource| (group, resource)))
        {
            for (name, named) in side(3) {
                let named = Some(named).filter(|_| fields.kind == FieldsOf::Named);
                for (verb, word) in side(2) {
                    let line = Line::Resource { group: in_group, resource: of, name: named };
                    if !self.push(line, [rule, group, resource, verb, name], word) {
                        return;
                    }
                }
            }
        }
    }

    /// Adds a verb. Returns `false` if a limit is reached.
    fn push(&mut self, line: Line<'r>, place: [usize; 5], verb: &'r str) -> bool {
        if self.bytes > MAX_TEXT || self.lines.len() >= MAX_LINES {
            self.truncated = true;
            return false;
        }
        let verbs = self.lines.entry(line).or_default();
        if verbs.is_empty() {
            self.bytes += line.length();
        }
        self.bytes += verb.len() + 3;
        verbs.push((place, verb));
        true
    }

    fn describe(self) -> BTreeSet<String> {
        let mut texts = BTreeSet::new();
        for (line, mut verbs) in self.lines {
            verbs.sort_unstable();
            texts.insert(line.rule(verbs.into_iter().map(|(_, verb)| verb.to_owned()).collect()).describe());
        }
        if self.truncated {
            // The tilde sorts this line last.
            texts.insert("~ and more".to_owned());
        }
        texts
    }
}

// === impl Line ===

impl Line<'_> {
    fn length(&self) -> usize {
        match self {
            Self::Resource { group, resource, name } => 60 + group.len() + resource.len() + name.map_or(0, str::len),
            Self::Path(path, _) => 30 + path.len(),
        }
    }

    fn rule(&self, verbs: Vec<String>) -> Rule {
        let one = |text: &str| vec![text.to_owned()];
        match self {
            Self::Resource { group, resource, name } => Rule {
                verbs,
                groups: one(group),
                resources: one(resource),
                names: name.iter().map(|name| (*name).to_owned()).collect(),
                paths: Vec::new(),
            },
            Self::Path(path, _) => Rule { verbs, paths: one(path), ..Rule::default() },
        }
    }
}

#[cfg(test)]
mod tests;
