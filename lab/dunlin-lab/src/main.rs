//! The command `dunlin-lab`.

fn main() -> std::process::ExitCode {
    dunlin_lab::main()
}
