//! The limits of an evaluation: cost, and created or visited values.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use regex::Regex;

use crate::{
    access::{AccessCheck, AccessDecision, AccessState},
    fault::EvalFault,
    pattern::compile_pattern,
};

/// Counts the cost of an evaluation and stops it at the limit.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: Cell<u64>,
    limit: u64,
    /// The number of created or visited values, including those that the cost model of kube-apiserver ignores.
    work: Rc<Cell<u64>>,
    /// A cache of compiled patterns.
    patterns: RefCell<HashMap<String, Rc<Regex>>>,
    access: Option<Rc<AccessState>>,
    only_cheap: bool,
}

impl Meter {
    /// The maximum number of values that one evaluation creates or visits. In the worst case they need some hundred MB.
    const MOST_WORK: u64 = 10_000_000;
    /// The cost and the number of values up to which an evaluation is cheap. It takes less than a millisecond.
    const CHEAP: u64 = 10_000;
    /// The cost of an access check.
    const CHECK: u64 = 350_000;

    pub(crate) fn new(limit: u64) -> Self {
        Self::sharing(limit, Rc::default(), None, false)
    }

    /// Creates a meter that shares the counter of visited values and the decisions with other evaluations. With
    /// `only_cheap`, it stops an evaluation that is not cheap.
    pub(crate) fn sharing(limit: u64, work: Rc<Cell<u64>>, access: Option<Rc<AccessState>>, only_cheap: bool) -> Self {
        Self { cost: Cell::new(0), limit, work, patterns: RefCell::default(), access, only_cheap }
    }

    /// Reports whether the evaluation was stopped because it is not cheap.
    pub(crate) fn was_stopped(&self) -> bool {
        self.only_cheap && (self.work.get() > Self::CHEAP || self.cost.get() > Self::CHEAP + self.checks())
    }

    /// Returns the cost of the access checks, which take no time here.
    fn checks(&self) -> u64 {
        self.cost.get() / Self::CHECK * Self::CHECK
    }

    /// Returns the decision on an access check. Stops the evaluation if it is not known yet.
    pub(crate) fn decide(&self, check: AccessCheck) -> Result<AccessDecision, EvalFault> {
        let access = self.access.as_ref().ok_or_else(|| EvalFault::error("no authorizer"))?;
        access.decide(check).ok_or(EvalFault::Exhausted)
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }

    /// Counts the cost of an operation. Returns an error if the limit is exceeded.
    pub(crate) fn charge(&self, cost: u64) -> Result<(), EvalFault> {
        let total = self.cost.get().saturating_add(cost);
        self.cost.set(total);
        if total > self.limit || self.was_stopped() { Err(EvalFault::Exhausted) } else { Ok(()) }
    }

    /// Counts created or visited values. Returns an error if the limit is exceeded.
    pub(crate) fn work(&self, count: u64) -> Result<(), EvalFault> {
        let total = self.work.get().saturating_add(count);
        self.work.set(total);
        if self.was_stopped() {
            return Err(EvalFault::Exhausted);
        }
        if total > Self::MOST_WORK {
            // The reported error is an exceeded cost limit, so the cost must exceed it.
            self.cost.set(self.cost.get().max(self.limit.saturating_add(1)));
            return Err(EvalFault::Exhausted);
        }
        Ok(())
    }

    /// Returns a compiled regular expression.
    pub(crate) fn pattern(&self, text: &str) -> Result<Rc<Regex>, EvalFault> {
        if let Some(known) = self.patterns.borrow().get(text) {
            return Ok(Rc::clone(known));
        }
        self.work(1_000 + text.len() as u64 * 100)?;
        let compiled = compile_pattern(text).map_err(EvalFault::error)?;
        let compiled = Rc::new(compiled);
        self.patterns.borrow_mut().insert(text.to_owned(), Rc::clone(&compiled));
        Ok(compiled)
    }
}
