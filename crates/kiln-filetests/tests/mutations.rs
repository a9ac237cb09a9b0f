//! Texts of the test files with mistakes in them. Whatever stands in a text, the parser and the
//! verifier refuse it by name, or every backend compiles it or says what it does not have: nothing
//! panics, hangs, takes memory without bound, or calls itself a bug.
//!
//! `KILN_MUTATIONS=N` makes so many, and `KILN_SEED=N` begins at another text; a failure names its
//! seed.

use kiln_backend::{Backend, Error};
use kiln_cuda::{compile_to_ptx, compile_to_threads, ptx};
use kiln_filetests::file::TestFile;
use kiln_fuzz::generate::Rng;
use kiln_ir::{parse, verify};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many texts are tried unless the environment says otherwise.
const TEXTS: u64 = 20_000;
/// The most memory that a text may take, in bytes.
const MEMORY: usize = 1 << 30;
/// A text that takes longer hangs, however busy the machine is: the slowest take a second.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Counts what is allocated, and refuses what is too much.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
/// The text that is being tried.
static SEED: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator, which is passed every call but those that are refused by a null.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ALLOCATED.fetch_add(layout.size(), Relaxed) + layout.size() > MEMORY {
            let seed = SEED.load(Relaxed);
            ALLOCATED.fetch_sub(layout.size(), Relaxed);
            // The process ends by it, with a message that allocates little.
            eprintln!("KILN_SEED={seed} wants {} bytes more than it may have", layout.size());
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Numbers that are edges of something.
const NUMBERS: [&str; 31] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "7",
    "8",
    "15",
    "16",
    "17",
    "24",
    "31",
    "32",
    "33",
    "63",
    "64",
    "127",
    "128",
    "255",
    "256",
    "512",
    "1024",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
];

fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|e| e.unwrap().path()) {
        if path.is_dir() {
            texts(&path, found);
        } else if path.extension().is_some_and(|e| e == "kir") {
            found.push(path);
        }
    }
}

const GPUS: [ptx::Target; 2] =
    [ptx::Target { compute: (8, 0), ptx: (8, 0) }, ptx::Target { compute: (9, 0), ptx: (8, 6) }];

/// The kernels of the test files, and what they are for the assembler's side of the compiler.
fn corpus() -> Vec<String> {
    let mut paths = Vec::new();
    texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("files"), &mut paths);
    paths.sort();
    let mut corpus = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        for case in TestFile::new(&text).unwrap().cases {
            let lines =
                case.text.lines().filter(|line| !line.trim_start().starts_with(';') && !line.is_empty());
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            if let Ok(kernel) = parse(&text)
                && verify(&kernel).is_ok()
            {
                let lowered = GPUS.iter().filter_map(|gpu| compile_to_threads(&kernel, *gpu).ok());
                let lowered = lowered.map(|kernel| kernel.to_string());
                // What is longer takes long and is like the rest.
                corpus.extend(lowered.filter(|text| text.len() < 20_000));
            }
            corpus.push(text);
        }
    }
    corpus
}

/// Words, numbers and names; every other character stands for itself.
fn tokens(line: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '%' | '@' | '.');
    let mut tokens: Vec<String> = Vec::new();
    let mut inside = false;
    for c in line.chars() {
        match tokens.last_mut() {
            Some(last) if inside && word(c) => last.push(c),
            _ => tokens.push(c.to_string()),
        }
        inside = word(c);
    }
    tokens
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

fn is_word(token: &str) -> bool {
    token.starts_with(char::is_alphabetic)
}

/// A text with one to four mistakes.
fn mutated(text: &str, words: &[String], lines: &[String], rng: &mut Rng) -> String {
    let mut text: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(text.len());
        let mut parts = tokens(&text[at]);
        let of = |kind: fn(&str) -> bool| -> Vec<usize> {
            (0..parts.len()).filter(|&i| kind(&parts[i])).collect()
        };
        let (numbers, known, names) = (of(is_number), of(is_word), of(|t| t.starts_with('%')));
        match rng.below(12) {
            0..=4 if !numbers.is_empty() => {
                let place = *rng.pick(&numbers);
                parts[place] = (*rng.pick(&NUMBERS)).to_owned();
            }
            5..=7 if !known.is_empty() => {
                let place = *rng.pick(&known);
                parts[place].clone_from(rng.pick(words));
            }
            8 if names.len() > 1 => {
                let (one, other) = (*rng.pick(&names), *rng.pick(&names));
                parts[one] = parts[other].clone();
            }
            9 => {
                let line = text[at].clone();
                text.insert(at, line);
                continue;
            }
            10 if text.len() > 1 => {
                text.remove(at);
                continue;
            }
            11 => {
                text.insert(at, rng.pick(lines).clone());
                continue;
            }
            _ => {
                let place = rng.below(parts.len().max(1));
                if place < parts.len() {
                    parts.remove(place);
                }
            }
        }
        text[at] = parts.concat();
    }
    text.join("\n") + "\n"
}

/// What a device must not answer.
fn bug<T>(stage: &str, outcome: Result<T, Error>) -> Option<String> {
    match outcome {
        Err(error @ Error::Internal { .. }) => Some(format!("{stage}: {error}")),
        _ => None,
    }
}

/// A failure without names and numbers, so that one mistake is reported once.
fn kind(wrong: &str) -> String {
    let quoted = wrong.split('`').step_by(2).collect::<String>();
    quoted.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Takes a text through everything; what went wrong.
fn tried(text: &str, devices: &[Box<dyn Backend>]) -> Option<String> {
    let kernel = parse(text).ok()?;
    verify(&kernel).ok()?;
    // The bound of ranks is the verifier's; see `MAX_VIEW_RANK`.
    if kernel.params.iter().any(|p| p.ty.as_view().is_some_and(|v| v.rank > 8)) {
        return None;
    }
    for device in devices {
        let wrong = bug(&device.properties().id, device.compile(&kernel));
        if wrong.is_some() {
            return wrong;
        }
    }
    for gpu in GPUS {
        let wrong = bug("for a GPU", compile_to_ptx(&kernel, gpu));
        if wrong.is_some() {
            return wrong;
        }
    }
    None
}

/// The message and place of the last panic.
static PANIC: Mutex<String> = Mutex::new(String::new());

#[test]
fn mistakes_in_texts_are_refused_by_name() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (first, count) = (number("KILN_SEED").unwrap_or(0), number("KILN_MUTATIONS").unwrap_or(TEXTS));
    let corpus = corpus();
    let mut words: Vec<String> = corpus.iter().flat_map(|text| tokens(text)).filter(|t| is_word(t)).collect();
    words.sort();
    words.dedup();
    let lines: Vec<String> = corpus.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
    let devices: [Box<dyn Backend>; 2] = [
        Box::new(kiln_interp::Interp::new(kiln_interp::Options::default())),
        Box::new(kiln_cpu::CpuBackend::with_threads(1)),
    ];
    // Ends the process with the name of a text that hangs.
    let progress = std::sync::Arc::new(Mutex::new(Instant::now()));
    let watched = std::sync::Arc::downgrade(&progress);
    std::thread::spawn(move || {
        while let Some(progress) = watched.upgrade() {
            if progress.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > PATIENCE {
                eprintln!("KILN_SEED={} hangs", SEED.load(Relaxed));
                std::process::abort();
            }
            drop(progress);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string()
    }));
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    let mut valid = 0;
    for seed in first..first + count {
        SEED.store(seed, Relaxed);
        *progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut rng = Rng::new(seed);
        let original = rng.pick(&corpus);
        let text = mutated(original, &words, &lines, &mut rng);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            valid += u32::from(parse(&text).is_ok_and(|kernel| verify(&kernel).is_ok()));
            tried(&text, &devices)
        }));
        let wrong = outcome.unwrap_or_else(|_| {
            Some(std::mem::take(&mut *PANIC.lock().unwrap_or_else(PoisonError::into_inner)))
        });
        if let Some(wrong) = wrong {
            failures.entry(kind(&wrong)).or_insert_with(|| format!("{wrong}\nKILN_SEED={seed}\n{text}"));
        }
    }
    std::panic::set_hook(before);
    let list: Vec<&str> = failures.values().map(String::as_str).collect();
    assert!(list.is_empty(), "{} kinds of failure in {valid} valid texts:\n{}", list.len(), list.join("\n"));
    assert!(count < 1000 || valid > count as u32 / 50, "only {valid} of {count} texts are valid");
}
