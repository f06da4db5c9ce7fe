//! `refloat load`: any logical dump into a real server.

mod args;
#[cfg(feature = "engine")]
mod enabled;
#[cfg(feature = "engine")]
mod options;

pub use args::LoadArgs;
#[cfg(feature = "engine")]
pub use enabled::run;

#[cfg(not(feature = "engine"))]
pub fn run(
    args: &LoadArgs,
    context: &crate::context::Context,
) -> anyhow::Result<crate::exit::Exit> {
    args.target.resolve(context)?;
    anyhow::bail!("load is not in this build yet")
}
