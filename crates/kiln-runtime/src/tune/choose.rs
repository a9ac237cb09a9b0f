//! Choosing a candidate: known, kept on disk, or measured.

use super::measure::{Contenders, Outcome, can_time, fastest, have_several, measure};
use super::snapshot::Snapshot;
use crate::activity::CallSite;
use crate::cache::DiskCache;
use crate::capture::node::Work;
use crate::capture::{recording, state};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::Graph;
use kiln_backend::Execution;
use std::time::Duration;
use web_time::Instant;

/// What a user's closure does for a candidate.
pub(super) type Launch<'a> = &'a mut dyn FnMut(usize) -> Result<()>;
/// Whether the last trial's result is right.
pub(super) type Check<'a> = Option<&'a mut dyn FnMut() -> Result<bool>>;

/// Digits of digests in questions: as many bits as keep accidents away.
const DIGITS: usize = 32;

/// A call that has to choose.
pub(super) struct Call<'a> {
    pub(super) device: &'a Device,
    /// What is tuned.
    pub(super) name: &'a str,
    /// What a process knows it by.
    pub(super) identity: &'a str,
    /// What the choice depends on, by the user.
    pub(super) key: &'a str,
    /// The names of the candidates.
    pub(super) names: &'a [String],
    pub(super) budget: Option<Duration>,
    pub(super) site: CallSite,
}

/// What was chosen, and what became of all candidates if that was found out just now.
pub(super) struct Choice {
    pub(super) candidate: usize,
    pub(super) outcomes: Vec<Outcome>,
    /// Whether later calls choose the same.
    holds: bool,
}

impl From<usize> for Choice {
    fn from(candidate: usize) -> Choice {
        Choice { candidate, outcomes: Vec::new(), holds: true }
    }
}

impl Call<'_> {
    /// Chooses, and launches what was chosen.
    pub(super) fn run(&self, launch: Launch<'_>, check: Check<'_>) -> Result<Choice> {
        let known = self.names.len() == 1;
        if let Some(candidate) = if known { Some(0) } else { self.settled() } {
            launch(candidate)?;
            return Ok(candidate.into());
        }
        // What is captured has not run, so that nothing can be tried.
        if state::is_on() {
            return self.first_to_record(launch);
        }
        let choice = self.choose(launch, check)?;
        if choice.holds {
            self.device.choices().settle(self.identity(), choice.candidate);
        }
        launch(choice.candidate)?;
        Ok(choice)
    }

    /// The candidate that this process has settled on.
    fn settled(&self) -> Option<usize> {
        let settled = self.device.choices().settled(&self.identity());
        settled.filter(|&candidate| candidate < self.names.len())
    }

    /// What the process knows a choice by.
    fn identity(&self) -> String {
        [self.identity, if self.may_measure() { "" } else { "kept" }, self.key].join("\n")
    }

    fn may_measure(&self) -> bool {
        self.budget != Some(Duration::ZERO)
    }

    /// The first candidate that can be launched, while this thread captures a graph.
    fn first_to_record(&self, launch: Launch<'_>) -> Result<Choice> {
        let mut outcomes = Vec::new();
        for candidate in 0..self.names.len() {
            let before = recording::recorded();
            match launch(candidate) {
                Ok(()) => return Ok(candidate.into()),
                Err(error) => outcomes.push(Outcome::Failed(error)),
            }
            recording::forget_after(before);
        }
        Err(self.none_works(&outcomes))
    }

    fn choose(&self, launch: Launch<'_>, check: Check<'_>) -> Result<Choice> {
        let Call { device, .. } = *self;
        let (first, question) = self.question(launch)?;
        if device.capabilities().execution == Execution::Interpreted {
            return Ok(first.into());
        }
        if let Some(kept) = self.kept(&question, launch) {
            return Ok(kept.into());
        }
        if !self.may_measure() {
            return Ok(first.into());
        }
        let Some(_measuring) = device.measuring() else {
            return Ok(Choice { holds: false, ..first.into() });
        };
        // Another thread may have measured while this one waited.
        if let Some(kept) = self.kept(&question, launch) {
            return Ok(kept.into());
        }
        if !can_time(device)? {
            return Ok(first.into());
        }
        let ends = self.budget.and_then(|budget| Instant::now().checked_add(budget));
        let mut trials = Trials { device, launch, check, snapshot: Snapshot::new(self.site), graph: None };
        let outcomes = measure(device, ends, self.names.len(), &mut trials);
        let candidate = fastest(&outcomes).ok_or_else(|| self.none_works(&outcomes))?;
        if have_several(&outcomes)
            && let Ok(graph) = trials.graph(candidate)
        {
            device.keep_choice(&question, &format!("{}, kernels {}", self.names[candidate], kernels(graph)));
        }
        Ok(Choice { candidate, outcomes, holds: true })
    }

    /// The first candidate that can be launched, and what the disk is asked: its kernels are part
    /// of that, so that a choice for other code is not found.
    fn question(&self, launch: Launch<'_>) -> Result<(usize, String)> {
        let Call { device, name, key, names, .. } = self;
        let mut outcomes = Vec::new();
        for candidate in 0..names.len() {
            match device.graph(|_| launch(candidate)) {
                Ok((graph, ())) => {
                    let parts: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
                    let names = &DiskCache::key(&parts)[..DIGITS];
                    let (count, kernels) = (parts.len(), kernels(&graph));
                    let question = format!("{name}, {key}, {count} candidates {names}, kernels {kernels}");
                    return Ok((candidate, question));
                }
                // The closure does what no trial can: every candidate would.
                Err(error @ Error::Capture { .. }) => return Err(error),
                Err(error) => outcomes.push(Outcome::Failed(error)),
            }
        }
        Err(self.none_works(&outcomes))
    }

    /// The candidate that was kept for a question, if it launches the same kernels as then.
    fn kept(&self, question: &str, launch: Launch<'_>) -> Option<usize> {
        let kept = self.device.choice(question)?;
        let (name, digest) = kept.rsplit_once(", kernels ")?;
        let candidate = self.names.iter().position(|known| known == name)?;
        let (graph, ()) = self.device.graph(|_| launch(candidate)).ok()?;
        (kernels(&graph) == digest).then_some(candidate)
    }

    /// The error where no candidate works: that of all of them, if it is one.
    fn none_works(&self, outcomes: &[Outcome]) -> Error {
        let texts: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
        if let Some(Outcome::Failed(error)) = outcomes.first()
            && texts.iter().all(|text| *text == texts[0])
        {
            return error.clone();
        }
        let problems = self.names.iter().zip(&texts).map(|(name, text)| format!("{name}: {text}"));
        Error::NoCandidate { tune: self.name.to_owned(), problems: problems.collect() }
    }
}

/// A digest of the kernels that a graph launches.
fn kernels(graph: &Graph) -> String {
    let digests: Vec<&[u8]> = graph
        .nodes
        .iter()
        .filter_map(|node| match &node.work {
            Work::Launch(launch) => Some(&launch.kernel.digest()[..]),
            Work::Copy { .. } | Work::Fill { .. } => None,
        })
        .collect();
    DiskCache::key(&digests)[..DIGITS].to_owned()
}

/// Candidates as graphs: so nothing of them runs before all of it has compiled and keeps the
/// limits, and what they write is known.
struct Trials<'a, 'l, 'c> {
    device: &'a Device,
    launch: &'l mut dyn FnMut(usize) -> Result<()>,
    check: Option<&'c mut dyn FnMut() -> Result<bool>>,
    snapshot: Snapshot,
    /// The candidate in hand.
    graph: Option<(usize, Graph)>,
}

impl Trials<'_, '_, '_> {
    fn graph(&mut self, candidate: usize) -> Result<&Graph> {
        let kept = self.graph.take().filter(|(of, _)| *of == candidate);
        let kept = match kept {
            Some(kept) => kept,
            None => (candidate, self.device.graph(|_| (self.launch)(candidate))?.0),
        };
        Ok(&self.graph.insert(kept).1)
    }
}

impl Contenders for Trials<'_, '_, '_> {
    fn first_run(&mut self, candidate: usize) -> Result<bool> {
        self.prepare(candidate)?;
        self.run(candidate)?;
        self.device.synchronize()?;
        self.check.as_mut().map_or(Ok(true), |check| check())
    }

    fn prepare(&mut self, candidate: usize) -> Result<()> {
        self.graph(candidate)?;
        if let Some((_, graph)) = &self.graph {
            self.snapshot.include(graph)?;
        }
        self.snapshot.restore()
    }

    fn run(&mut self, candidate: usize) -> Result<()> {
        self.graph(candidate)?.replay()
    }
}
