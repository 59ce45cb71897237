"""What follows an audit: labels reviewed by people who do not know what hinges on them, and limits for builds."""
