//! The trace that is being recorded on this thread: open regions, types of values, errors.

use super::error::TraceError;
use super::item::{Id, Item, MadeId, MadeView, Raw, Region, Var};
use super::scope::Scope;
use super::site::{Site, SourceLocation};
use kiln_ir::{BinaryOp, Level, Literal, Message, OpKind, Param, Scalar, Shape, Space, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// Errors beyond this many are not kept: the first ones matter.
const MAX_ERRORS: usize = 20;
/// A trace longer than this is a loop on the host that was meant to run on the device.
const MAX_ITEMS: usize = 4_000_000;

/// What to do about a panic under a condition of the device.
const PANIC_ON_A_CONDITION: &str = "a panic happens on the host, whatever the condition around it is on the device; \
                                    check there with `device_assert!(condition, \"..\")`";

thread_local! {
    static CURRENT: RefCell<Option<Recorder>> = const { RefCell::new(None) };
    /// Whether there is one: every launch asks.
    static RECORDS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread records a trace.
#[inline]
pub(super) fn records() -> bool {
    RECORDS.get()
}

/// Runs `f` on the recorder of this thread; `None` outside a trace.
///
/// Generic code calls this hundreds of times, so it is a thin layer over [`run`].
pub(crate) fn with<R>(f: impl FnOnce(&mut Recorder) -> R) -> Option<R> {
    let (mut f, mut result) = (Some(f), None);
    run(&mut |recorder| result = f.take().map(|f| f(recorder)));
    result
}

/// Calls `f` with the recorder of this thread, once, if there is one that is free.
fn run(f: &mut dyn FnMut(&mut Recorder)) {
    CURRENT.with(|current| {
        if let Ok(mut current) = current.try_borrow_mut()
            && let Some(recorder) = current.as_mut()
        {
            f(recorder);
        }
    });
}

/// Installs a recorder and gives back the one before it.
pub(super) fn install(recorder: Option<Recorder>) -> Option<Recorder> {
    RECORDS.set(recorder.is_some());
    CURRENT.with(|c| c.replace(recorder))
}

/// Reports a mistake of the user's; a no-op outside a trace.
pub(crate) fn error(site: Site, message: impl Into<String>, help: impl Into<String>) {
    with(|r| r.error(site, message, help));
}

/// What a region is to the steps outside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegionKind {
    /// An arm or a loop body on the device.
    Device,
    /// The condition of a `while` or the body of a `loop`, of which it is not known yet whether it
    /// runs on the host.
    Undecided,
}

/// A region that is being filled.
pub(crate) struct OpenRegion {
    pub kind: RegionKind,
    pub region: Region,
    /// Names this region among all that were ever opened.
    pub uid: u32,
    /// Nothing recorded from here on could ever run.
    pub dead: bool,
    /// Values, each with the one that stands for it from here on, as more is known of that.
    refined: Vec<(Id, Id)>,
    /// Errors that hold only if an undecided region turns out to be the device's.
    suspended: Vec<TraceError>,
}

/// How deep in device control flow the trace is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Depth {
    device: u32,
    undecided: u32,
}

/// A trace under way.
pub(crate) struct Recorder {
    pub name: String,
    /// Where the kernel's function stands: for mistakes that have no line of their own.
    pub place: SourceLocation,
    pub level: Level,
    pub params: Vec<(Param, Id)>,
    pub messages: Vec<String>,
    /// Blocks of a cluster.
    pub cluster: u32,
    /// Whether products and sums may become multiply-adds.
    pub contract: bool,
    pub regions: Vec<OpenRegion>,
    pub(super) scopes: Vec<Scope>,
    pub errors: Vec<TraceError>,
    warnings: Vec<TraceError>,
    pub(super) types: Vec<Type>,
    /// The region that each value is computed in.
    homes: Vec<u32>,
    /// Regions that became part of another one.
    merged: FxHashMap<u32, u32>,
    pub(super) vars: Vec<Type>,
    /// The variables that were assigned after their declaration.
    written: FxHashSet<Var>,
    recorded: usize,
    uids: u32,
    /// Tasks around what is recorded now.
    pub tasks: u32,
    /// Memory of the block through which tiles are rearranged.
    staging: FxHashMap<(Scalar, Shape), Id>,
    /// The views that the kernel made.
    made: Vec<MadeView>,
}

impl Recorder {
    pub fn new(name: &str, place: SourceLocation, level: Level) -> Recorder {
        let mut recorder = Recorder {
            name: name.to_owned(),
            place,
            level,
            params: Vec::new(),
            messages: Vec::new(),
            cluster: 1,
            contract: false,
            regions: Vec::new(),
            scopes: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            types: Vec::new(),
            homes: Vec::new(),
            merged: FxHashMap::default(),
            vars: Vec::new(),
            written: FxHashSet::default(),
            recorded: 0,
            uids: 0,
            tasks: 0,
            staging: FxHashMap::default(),
            made: Vec::new(),
        };
        recorder.open(RegionKind::Device);
        recorder
    }

    /// Reports a mistake.
    pub fn error(&mut self, site: Site, message: impl Into<String>, help: impl Into<String>) {
        self.push_error(located(site, message.into(), help.into()));
    }

    /// Reports a mistake at a place that is no location of the compiler's.
    pub fn error_at(&mut self, place: SourceLocation, message: impl Into<String>, help: impl Into<String>) {
        let SourceLocation { file, line, column } = place;
        let (message, help) = (message.into(), help.into());
        self.push_error(TraceError { file: file.to_owned(), line, column, message, help });
    }

    /// Reports a panic of the kernel's; where its place is not known, at the kernel's function.
    pub fn panicked(&mut self, at: Option<(String, u32, u32)>, conditional: bool, text: &str) {
        let here = self.place;
        let (file, line, column) = at.unwrap_or_else(|| (here.file.to_owned(), here.line, here.column));
        let message = format!("the kernel panicked while it was traced: {text}");
        let help = if conditional { PANIC_ON_A_CONDITION } else { "" };
        self.push_error(TraceError { file, line, column, message, help: help.to_owned() });
    }

    /// Whether what is recorded now is under a condition or in a loop of the device.
    pub fn in_device_flow(&self) -> bool {
        self.regions.iter().skip(1).any(|open| open.kind == RegionKind::Device)
    }

    /// Warns of what works but is hardly meant. Kept until the trace ends.
    pub fn warn(&mut self, site: Site, message: impl Into<String>, help: impl Into<String>) {
        let warning = located(site, message.into(), help.into());
        if self.warnings.len() < MAX_ERRORS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The warnings so far.
    pub fn warnings(&self) -> &[TraceError] {
        &self.warnings
    }

    /// How many operations were recorded.
    pub fn recorded(&self) -> usize {
        self.recorded
    }

    fn push_error(&mut self, error: TraceError) {
        if self.errors.len() < MAX_ERRORS && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// A number that was not given before.
    pub fn uid(&mut self) -> u32 {
        self.uids += 1;
        self.uids
    }

    // ---- regions

    /// Opens a region; everything is recorded into it until it is closed.
    pub fn open(&mut self, kind: RegionKind) -> u32 {
        let uid = self.uid();
        self.open_as(uid, kind);
        uid
    }

    /// Opens a region that counts as an earlier, closed one, whose values may be used in it.
    pub fn open_as(&mut self, uid: u32, kind: RegionKind) {
        let region = Region::default();
        let (refined, suspended) = (Vec::new(), Vec::new());
        self.regions.push(OpenRegion { kind, region, uid, dead: false, refined, suspended });
    }

    /// Closes the innermost region and gives it away; it has become the device's.
    pub fn close(&mut self) -> Region {
        let Some(open) = self.regions.pop() else { return Region::default() };
        open.suspended.into_iter().for_each(|e| self.push_error(e));
        open.region
    }

    /// Closes the innermost region, whose steps belong to the one around it after all.
    pub fn splice(&mut self) {
        let Some(open) = self.regions.pop() else { return };
        let Some(outer) = self.regions.last_mut() else { return };
        self.merged.insert(open.uid, outer.uid);
        outer.region.items.extend(open.region.items);
        outer.region.owned.extend(open.region.owned);
        outer.refined.extend(open.refined);
        outer.dead |= open.dead;
        // Whatever was suspended remains suspended as long as a region around is undecided too.
        if outer.kind == RegionKind::Undecided {
            outer.suspended.extend(open.suspended);
        }
    }

    /// The position of the region with this number, if it is still open.
    pub fn position(&self, uid: u32) -> Option<usize> {
        self.regions.iter().rposition(|r| r.uid == uid)
    }

    /// As [`position`](Self::position), of the region that this one has become part of.
    pub fn open_position(&self, uid: u32) -> Option<usize> {
        let mut uid = uid;
        while let Some(outer) = self.merged.get(&uid) {
            uid = *outer;
        }
        self.position(uid)
    }

    /// The number of the innermost region.
    pub fn innermost(&self) -> u32 {
        self.regions.last().map_or(0, |r| r.uid)
    }

    /// Appends a step to the innermost region.
    pub fn push(&mut self, item: Item) {
        if let Some(open) = self.regions.last_mut() {
            open.region.items.push(item);
        }
    }

    /// Whether the trace has outgrown any sensible kernel; reported once, at `site`.
    pub fn overflowed(&mut self, site: Site) -> bool {
        if self.recorded <= MAX_ITEMS {
            return false;
        }
        let message = format!("this loop was unrolled into more than {MAX_ITEMS} operations");
        self.error(site, message, "loop over `range(lo, hi)` to make it a loop on the device");
        true
    }

    /// How deep the trace is in device control flow now.
    pub fn depth(&self) -> Depth {
        let undecided = self.regions.iter().filter(|r| r.kind == RegionKind::Undecided).count() as u32;
        Depth { device: self.regions.len() as u32 - undecided, undecided }
    }

    /// Reports a host variable that changes deeper in device control flow than `declared`.
    pub fn check_host_assignment(&mut self, declared: Depth, site: Site) {
        self.check_change(
            declared,
            site,
            "a host value is changed under device control flow",
            "make it a device value (`let mut n: Val<i32> = 0`), or declare it inside the branch or loop",
        );
    }

    /// Whether the trace is deeper in device control flow than `declared`.
    pub fn is_deeper(&self, declared: Depth) -> bool {
        let now = self.depth();
        now.device > declared.device || now.undecided > declared.undecided
    }

    /// Reports a change of something that was declared less deep in device control flow.
    pub fn check_change(
        &mut self,
        declared: Depth,
        site: Site,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let now = self.depth();
        if !self.is_deeper(declared) {
            return;
        }
        let error = located(site, message.into(), help.into());
        if now.device > declared.device {
            return self.push_error(error);
        }
        let undecided = self.regions.iter_mut().filter(|r| r.kind == RegionKind::Undecided);
        undecided.skip(declared.undecided as usize).for_each(|r| r.suspended.push(error.clone()));
    }

    /// Marks everything that follows in the innermost region as unreachable, or as reachable again.
    pub fn set_dead(&mut self, dead: bool) {
        if let Some(open) = self.regions.last_mut() {
            open.dead = dead;
        }
    }

    /// Whether nothing recorded now could run.
    pub fn is_dead(&self) -> bool {
        self.regions.last().is_some_and(|r| r.dead)
    }

    // ---- values

    /// A new value of a type.
    pub fn value(&mut self, ty: Type) -> Id {
        self.types.push(ty);
        self.homes.push(self.innermost());
        Id(self.types.len() as u32 - 1)
    }

    /// The type of a value. Handles kept from another trace are not values of this one.
    pub fn type_of(&self, id: Id) -> Option<&Type> {
        self.types.get(id.0 as usize)
    }

    /// The type behind a handle; `None` for poison.
    pub fn ty(&self, raw: Raw) -> Option<Type> {
        match raw {
            Raw::Const(literal) => Some(Type::scalar(literal.elem())),
            Raw::Value(id) => self.type_of(id).cloned(),
            Raw::Var(var) => self.vars.get(var.0 as usize).cloned(),
            Raw::Poison => None,
        }
    }

    /// The shape behind a handle; `None` for poison and for views.
    pub fn shape(&self, raw: Raw) -> Option<Shape> {
        self.ty(raw)?.as_tile().map(|t| t.shape.clone())
    }

    /// Whether the region that computes a value is still open. Handles kept from another trace may
    /// not be values of this one.
    fn exists_here(&self, id: Id) -> bool {
        self.homes.get(id.0 as usize).is_some_and(|home| self.open_position(*home).is_some())
    }

    /// In the rest of the innermost region, a value is another one, which is equal to it.
    pub fn refine(&mut self, id: Id, to: Id) {
        if id != to
            && let Some(open) = self.regions.last_mut()
        {
            open.refined.push((id, to));
        }
    }

    /// The value that stands for another one here.
    pub fn refined(&self, id: Id) -> Id {
        let all = || self.regions.iter().flat_map(|open| &open.refined);
        let next = |id: &Id| all().find(|(from, _)| from == id).map(|(_, to)| *to);
        std::iter::successors(Some(id), next).last().unwrap_or(id)
    }

    /// The value a handle stands for now.
    pub fn read(&mut self, raw: Raw, site: Site) -> Option<Id> {
        match raw {
            Raw::Const(literal) => Some(self.constant(literal, Shape::scalar(), site)),
            Raw::Value(id) if self.exists_here(id) => Some(self.refined(id)),
            Raw::Value(_) => {
                self.error(
                    site,
                    "this value was computed in device control flow that has ended, and does not exist here",
                    "assign it to a variable that is declared outside, such as `let mut x: Val<f32> = 0.0`",
                );
                None
            }
            Raw::Var(var) => {
                let ty = self.vars.get(var.0 as usize)?.clone();
                let result = self.value(ty);
                self.push(Item::Get { var, result });
                Some(result)
            }
            Raw::Poison => None,
        }
    }

    /// The value a handle stands for now, stretched to a shape; reports shapes that do not fit.
    pub fn read_as(&mut self, raw: Raw, shape: &Shape, site: Site) -> Option<Id> {
        if let Raw::Const(literal) = raw {
            return Some(self.constant(literal, shape.clone(), site));
        }
        let from = self.shape(raw)?;
        if from == *shape {
            return self.read(raw, site);
        }
        if from.broadcast(shape).as_ref() != Some(shape) {
            let message = format!("a value of shape {from} does not stretch to shape {shape}");
            self.error(site, message, "only extents of 1 and missing leading axes stretch");
            return None;
        }
        let id = self.read(raw, site)?;
        let elem = self.ty(raw)?.elem();
        Some(self.stretch(id, elem, &from, shape, site))
    }

    fn stretch(&mut self, id: Id, elem: Scalar, from: &Shape, to: &Shape, site: Site) -> Id {
        let mut id = id;
        if from.rank() > 0 && from.rank() < to.rank() {
            let mut extents: SmallVec<[u32; 4]> = SmallVec::from_elem(1, to.rank() - from.rank());
            extents.extend_from_slice(from.extents());
            let padded = Shape::new(&extents);
            id = self.op(OpKind::Reshape, &[id], Type::tile(elem, padded.clone()), site);
            if padded == *to {
                return id;
            }
        }
        self.op(OpKind::Broadcast, &[id], Type::tile(elem, to.clone()), site)
    }

    // ---- operations

    /// Appends an operation with one result.
    pub fn op(&mut self, kind: OpKind, operands: &[Id], ty: Type, site: Site) -> Id {
        let id = self.value(ty);
        self.record(kind, operands, &[id], site);
        id
    }

    /// Appends an operation with a result of each type.
    pub fn op_of<const N: usize>(
        &mut self,
        kind: OpKind,
        operands: &[Id],
        types: [Type; N],
        site: Site,
    ) -> [Id; N] {
        let ids = types.map(|ty| self.value(ty));
        self.record(kind, operands, &ids, site);
        ids
    }

    /// Appends an operation without a result.
    pub fn effect(&mut self, kind: OpKind, operands: &[Id], site: Site) {
        self.record(kind, operands, &[], site);
    }

    fn record(&mut self, kind: OpKind, operands: &[Id], results: &[Id], site: Site) {
        self.recorded += 1;
        if self.recorded <= MAX_ITEMS {
            let (operands, results) = (SmallVec::from_slice(operands), SmallVec::from_slice(results));
            self.push(Item::Op { kind, operands, results, site });
        }
    }

    /// Appends a constant.
    pub fn constant(&mut self, literal: Literal, shape: Shape, site: Site) -> Id {
        self.op(OpKind::Const(literal), &[], Type::tile(literal.elem(), shape), site)
    }

    /// Appends a binary operation on values of one type.
    pub fn binary(&mut self, op: BinaryOp, a: Id, b: Id, site: Site) -> Option<Id> {
        let ty = self.type_of(a)?.clone();
        Some(self.op(OpKind::Binary(op), &[a, b], ty, site))
    }

    /// Memory of the block for a tile on its way to other threads. Accesses of it are ordered by
    /// the compiler, so that tiles of one type and shape take turns in one memory.
    pub fn staging(&mut self, elem: Scalar, shape: &Shape, site: Site) -> Id {
        let key = (elem, shape.clone());
        if let Some(&known) = self.staging.get(&key)
            && self.exists_here(known)
        {
            return known;
        }
        let kind = OpKind::Alloc { space: Space::Shared, elem, shape: shape.clone() };
        let made = self.op(kind, &[], Type::view(elem, shape.rank() as u32, Space::Shared), site);
        self.staging.insert(key, made);
        made
    }

    /// The number of a view that the kernel makes.
    pub fn make_view(&mut self, view: MadeView) -> MadeId {
        self.made.push(view);
        MadeId(self.made.len() as u32 - 1)
    }

    /// A view that the kernel made.
    pub fn made_view(&self, id: MadeId) -> Option<MadeView> {
        self.made.get(id.0 as usize).copied()
    }

    /// The number of a message text.
    pub fn message(&mut self, text: &str) -> Message {
        let at = self.messages.iter().position(|m| m == text).unwrap_or_else(|| {
            self.messages.push(text.to_owned());
            self.messages.len() - 1
        });
        Message(at as u32)
    }

    // ---- variables

    /// A new variable that lives in the region at a position of the stack.
    pub fn declare(&mut self, ty: Type, home: usize) -> Var {
        self.vars.push(ty);
        let var = Var(self.vars.len() as u32 - 1);
        if let Some(open) = self.regions.get_mut(home) {
            open.region.owned.push(var);
        }
        var
    }

    /// A new variable of the innermost region that holds what `raw` stands for now.
    pub fn declare_as(&mut self, raw: Raw, site: Site) -> Raw {
        let Some(value) = self.read(raw, site) else { return Raw::Poison };
        let Some(ty) = self.type_of(value).cloned() else { return Raw::Poison };
        let var = self.declare(ty, self.regions.len() - 1);
        self.push(Item::Set { var, value });
        Raw::Var(var)
    }

    /// Writes a variable. A value of a smaller shape stretches.
    pub fn set(&mut self, var: Var, raw: Raw, site: Site) {
        let Some(ty) = self.vars.get(var.0 as usize).cloned() else { return };
        let (Some(target), Some(shape)) = (ty.as_tile(), self.shape(raw)) else { return };
        if shape.broadcast(&target.shape).as_ref() != Some(&target.shape) {
            let message = format!(
                "a variable of shape {} cannot take a value of shape {shape}: shapes are fixed at the declaration",
                target.shape
            );
            let help = format!("declare it with the larger shape, such as `full({shape}, x)`");
            return self.error(site, message, help);
        }
        let shape = target.shape.clone();
        if let Some(value) = self.read_as(raw, &shape, site) {
            self.written.insert(var);
            self.push(Item::Set { var, value });
        }
    }

    /// Whether a handle is that of a variable which was assigned after its declaration.
    pub fn is_written(&self, raw: Raw) -> bool {
        matches!(raw, Raw::Var(var) if self.written.contains(&var))
    }
}

fn located(site: Site, message: String, help: String) -> TraceError {
    TraceError { file: site.file().to_owned(), line: site.line(), column: site.column(), message, help }
}
