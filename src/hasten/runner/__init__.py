"""The program that runs on the device: takes requests, drives the engine, answers."""
