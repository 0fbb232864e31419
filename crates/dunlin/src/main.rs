//! The command `dunlin`.

fn main() -> std::process::ExitCode {
    dunlin::run()
}
