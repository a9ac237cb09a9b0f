//! `kiln ring`: ring kernels of running programs.
//!
//! | file | holds |
//! |---|---|
//! | `seen.rs` | what programs publish of their actors |
//! | `top.rs` | `kiln ring top` |

mod seen;
mod top;

use crate::failure::Failure;
use clap::Subcommand;

/// Shows the ring kernels of running programs.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Top(top::Args),
}

pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Top(args) => top::run(args),
    }
}
