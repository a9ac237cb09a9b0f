//! Programs under `kiln debug`: every device they open is the interpreter, whose launches stop at
//! breakpoints. The session reads its commands from the terminal or from a file, so that the
//! program has its standard input for itself. Two variables of the environment say so.

use crate::error::Result;
use crate::sanitize::{self, COMMANDS_VARIABLE, DEBUG_VARIABLE, debugged};
use kiln_backend::Error;
use kiln_interp::{Session, Terminal};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::sync::{Arc, Mutex, PoisonError};

/// The session of this process, which all its devices share.
static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);

/// The terminal of the process, to read and to write.
const TERMINAL: [&str; 2] = if cfg!(windows) { ["CONIN$", "CONOUT$"] } else { ["/dev/tty", "/dev/tty"] };

/// The session, if this program is debugged. The first call begins it.
///
/// # Errors
/// If there is no terminal, or the file of commands cannot be read.
pub(crate) fn session() -> Result<Option<Arc<Session>>> {
    let Some(device) = debugged() else { return Ok(None) };
    let mut session = SESSION.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(session) = &*session {
        return Ok(Some(session.clone()));
    }
    let unavailable = |reason: String, hint: &str| Error::Unavailable {
        device: format!("{device} under {DEBUG_VARIABLE}"),
        reason,
        hint: hint.to_owned(),
    };
    let terminal: Box<dyn Terminal> = match std::env::var_os(COMMANDS_VARIABLE) {
        Some(path) => {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                let reason = format!("the commands in {} cannot be read: {error}", path.display());
                unavailable(reason, "Name a file with a command in each line.")
            })?;
            Box::new(Script { lines: text.lines().map(str::to_owned).collect() })
        }
        None => {
            let [input, output] = TERMINAL;
            let opened = File::open(input).and_then(|input| {
                Ok(Console {
                    input: BufReader::new(input),
                    output: File::options().write(true).open(output)?,
                })
            });
            Box::new(opened.map_err(|error| {
                let reason = format!("the process has no terminal: {error}");
                unavailable(reason, "Give the commands in a file: `kiln debug --commands FILE PROGRAM`.")
            })?)
        }
    };
    kiln_lang::record_names(true);
    let begun = Arc::new(Session::new(terminal));
    *session = Some(begun.clone());
    // Before the first commands, of which one may end the program.
    sanitize::opened(&device);
    // Other threads that open a device wait until the first commands have been read.
    begun.begin();
    Ok(Some(begun))
}

/// Commands of a file; they are printed with what they print, to standard output.
struct Script {
    lines: VecDeque<String>,
}

/// Writes to standard output, also where the caller's `print!` is captured. A reader that is gone
/// needs nothing.
fn write(text: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl Terminal for Script {
    fn read(&mut self, prompt: &str) -> Option<String> {
        let line = self.lines.pop_front()?;
        if !line.trim().is_empty() {
            write(&format!("{prompt}{line}\n"));
        }
        Some(line)
    }

    fn write(&mut self, text: &str) {
        write(text);
    }

    fn quit(&mut self) {
        std::process::exit(0);
    }
}

/// The terminal of the process, whatever its standard input and output are.
struct Console {
    input: BufReader<File>,
    output: File,
}

impl Terminal for Console {
    fn read(&mut self, prompt: &str) -> Option<String> {
        // What the program has printed so far comes before.
        let _ = stdout().flush();
        self.write(prompt);
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(1..) => Some(line),
            Ok(0) | Err(_) => None,
        }
    }

    fn write(&mut self, text: &str) {
        let _ = self.output.write_all(text.as_bytes());
    }

    fn quit(&mut self) {
        std::process::exit(0);
    }

    fn repeats(&self) -> bool {
        true
    }
}
