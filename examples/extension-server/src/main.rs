//! The program of the extension API server.

use std::process::ExitCode;

use windlass::{
    api::{BoxError, ErrorChain},
    client::{Client, Config},
    prelude::shutdown,
};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the extension API server failed: {}", ErrorChain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), BoxError> {
    let client = Client::new(Config::infer()?)?;
    println!("serving ferries.example.com until interrupted");
    extension_server::serve(client, shutdown::signal()).await
}
