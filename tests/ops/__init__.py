"""What the engineer on call meets: the doctor, alarms, events, automations, logs, telemetry."""
