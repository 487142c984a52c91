//! The limits of an evaluation: cost, and created or visited values.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use regex::Regex;

use crate::{fault::EvalFault, pattern::compile_pattern};

/// Counts the cost of an evaluation and stops it at the limit.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: Cell<u64>,
    limit: u64,
    /// The number of created or visited values, including those that the cost model of kube-apiserver ignores.
    work: Cell<u64>,
    /// A cache of compiled patterns.
    patterns: RefCell<HashMap<String, Rc<Regex>>>,
}

impl Meter {
    /// The maximum number of values that one evaluation creates or visits. In the worst case they need some hundred MB.
    const MOST_WORK: u64 = 10_000_000;

    pub(crate) fn new(limit: u64) -> Self {
        Self { cost: Cell::new(0), limit, work: Cell::new(0), patterns: RefCell::default() }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }

    /// Counts the cost of an operation. Returns an error if the limit is exceeded.
    pub(crate) fn charge(&self, cost: u64) -> Result<(), EvalFault> {
        let total = self.cost.get().saturating_add(cost);
        self.cost.set(total);
        if total > self.limit { Err(EvalFault::Exhausted) } else { Ok(()) }
    }

    /// Counts created or visited values. Returns an error if the limit is exceeded.
    pub(crate) fn work(&self, count: u64) -> Result<(), EvalFault> {
        let total = self.work.get().saturating_add(count);
        self.work.set(total);
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
