//! The commands that a build may leave out.
#[cfg(feature = "cpus")]
pub use ::cpus;
#[cfg(feature = "cpus")]
pub use ::fabric;
#[cfg(feature = "kubernetes")]
pub use ::scale;
#[cfg(not(feature = "cpus"))]
pub use absent::cpus;
#[cfg(not(feature = "cpus"))]
pub use absent::fabric;
#[cfg(not(feature = "kubernetes"))]
pub use absent::scale;
#[cfg(not(feature = "etcd"))]
pub use absent::{AbsentCommand, import_etcd};

/// What stands for them in a build without their feature.
#[allow(dead_code)] // in a build that has them
mod absent {
    use clap::Args;
    use config::{FEATURE_HELP, Feature};
    use cpu::CpuList;
    use std::error::Error;
    use std::ffi::OsString;
    use std::process::ExitCode;

    /// Arguments of a command that is left out: any.
    #[derive(Args, Debug, Default)]
    pub struct AbsentCommand {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        arguments: Vec<OsString>,
    }

    fn refuse(command: &str, feature: Feature) -> Result<ExitCode, Box<dyn Error>> {
        Err(format!("{} ({FEATURE_HELP})", feature.absence(command)).into())
    }

    pub mod cpus {
        use super::*;

        pub mod cli {
            pub use super::super::AbsentCommand as Cpus;
        }

        pub fn run(_: &cli::Cpus) -> Result<ExitCode, Box<dyn Error>> {
            refuse("dunlin cpus", Feature::Cpus)
        }

        /// The config refuses what asks for it.
        pub fn plan_workers(
            _: &CpuList,
            _: usize,
            _: Option<&str>,
        ) -> Result<(CpuList, String), String> {
            Err(Feature::Cpus.absence("a choice of cores"))
        }
    }

    pub mod import_etcd {
        use super::*;

        pub fn run(_: &AbsentCommand) -> Result<ExitCode, Box<dyn Error>> {
            refuse("dunlin import etcd", Feature::Etcd)
        }
    }

    pub mod fabric {
        use super::*;

        pub mod cli {
            pub use super::super::AbsentCommand as Fabric;
        }

        pub fn run(_: &cli::Fabric) -> Result<ExitCode, Box<dyn Error>> {
            refuse("dunlin fabric", Feature::Cpus)
        }
    }

    pub mod scale {
        use super::*;

        pub mod cli {
            pub use super::super::AbsentCommand as Scale;
        }

        pub fn run(_: &cli::Scale) -> Result<ExitCode, Box<dyn Error>> {
            refuse("dunlin scale", Feature::Kubernetes)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use clap::Parser;

        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            absent: AbsentCommand,
        }

        #[test]
        fn command_of_an_absent_feature_takes_any_argument_and_names_the_feature() {
            let words = ["dunlin-cpus", "plan", "--request", "4"];
            let Command { absent } = Command::try_parse_from(words).expect("any arguments");
            let refused = cpus::run(&absent).expect_err("left out").to_string();
            assert!(refused.starts_with("dunlin cpus needs the feature `cpus`,"), "{refused}");
            let refused = fabric::run(&absent).expect_err("left out").to_string();
            assert!(refused.starts_with("dunlin fabric needs the feature `cpus`,"), "{refused}");
            let refused = scale::run(&absent).expect_err("left out").to_string();
            assert!(
                refused.starts_with("dunlin scale needs the feature `kubernetes`,"),
                "{refused}"
            );
            assert!(refused.contains("cargo build --release"), "{refused}");
        }
    }
}
