"""What people see: tables now, plots with the issues that need them. Knows no noun of the library."""
