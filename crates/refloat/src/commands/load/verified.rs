//! `--verify digest`: reads back what was loaded and compares it with the dump.

use std::path::Path;

use anyhow::Error;
use refloat_load::LoadOptions;
use refloat_run::{Refusal, Run};
use refloat_store::files;
use refloat_verify::{
    self, Compared, Endpoint, Relation, VerifyError, VerifyFailure, VerifyOptions, VerifyOutcome,
};

use super::args::LoadArgs;
use crate::exit::{Exit, ProgramError};

/// Refuses a comparison that is impossible, before anything is loaded.
pub fn refuse(args: &LoadArgs, source: &Path) -> anyhow::Result<()> {
    let again = files::is_file(source) || files::is_folder(source);
    // A missing source is for the load to report.
    let reason = if source.as_os_str() == "-" || (source.exists() && !again) {
        "--verify digest reads the dump a second time, which a pipe cannot give"
    } else if args.what.append {
        "--verify digest compares whole tables, and --append adds rows to others"
    } else {
        return Ok(());
    };
    Err(ProgramError::new(Exit::Refused, reason)
        .hint("Without it rows are counted and definitions compared; `refloat verify` compares with the server that the dump came from.")
        .into())
}

/// The rows are loaded by now: if the comparison is refused, they are unproven, and nothing else is
/// refused.
fn not_compared(error: VerifyError) -> Error {
    let VerifyError::Refused(Refusal { reason, hint }) = error else {
        return Error::new(error);
    };
    let message = format!("everything is loaded, but not compared with the dump: {reason}");
    ProgramError::new(Exit::ProofFailed, message)
        .hint(hint)
        .into()
}

/// Compares the rows of the target with those of the dump, with code independent of the load's.
pub fn compare(
    options: &LoadOptions,
    run: &Run,
) -> Result<VerifyOutcome, (Error, Box<VerifyOutcome>)> {
    let dump = Endpoint::Dump(options.source.clone());
    let target = Endpoint::Server(Box::new(options.target.clone()));
    let mut asked = VerifyOptions::new(dump, target);
    asked.threads = options.threads;
    asked.tables.clone_from(&options.tables);
    asked.more_in_second = true;
    asked.relation = Relation::MadeOfFirst;
    asked.database.clone_from(&options.database);
    asked.source_format = options.source_format;
    asked.accept_missing_trailer = options.accept_missing_trailer;
    asked.delimited.clone_from(&options.delimited);
    asked.scratch.clone_from(&options.scratch);
    asked.compared = Compared::Rows;
    refloat_verify::verify(&asked, run)
        .map_err(|VerifyFailure { error, outcome }| (not_compared(error), outcome))
}
